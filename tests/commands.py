"""The command, called here or by itself, and the tables it writes."""

import csv

from click.testing import CliRunner

from outfold.app.cli.main import main

CODE = "from outfold.app.cli.main import main; main(prog_name='outfold')"


def call(*words, **settings):
    return CliRunner().invoke(main, [str(word) for word in words], **settings)


def done(*words, **settings):
    answer = call(*words, **settings)
    assert answer.exit_code == 0, answer.output
    return answer


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))
