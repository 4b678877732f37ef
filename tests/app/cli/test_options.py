"""Options of the command: methods, parameters and columns by name."""

from commands import call, done
from outfold import methods, storage
from outfold.app.cli import options
from outfold.data import writers


def test_every_public_method_has_its_name():
    assert set(options.COMMAND_METHODS.values()) == set(methods.__all__)
    assert set(options.TABLE_SUFFIXES) == set(writers.TABLE_SUFFIXES)
    told = done("fit", "--help").output
    assert all(name in told for name in options.COMMAND_METHODS)


def test_set_reaches_any_parameter_and_wrong_ones_are_named(wine):
    save = ["--id", "bottle", "--save", wine.with_name("m.outfold")]
    done("fit", wine, *save, "--set", "alpha=0.5", "--set", "t=2", "--epsilon", "0.3", "--neighbors", "null")
    maps, _ = storage.open_model(wine.with_name("m.outfold"))
    assert (maps.alpha, maps.t, maps.epsilon, maps.n_neighbors) == (0.5, 2, 0.3, None)
    for words, message in [
        (["--set", "alhpa=1"], "no parameter alhpa. Did you mean alpha?"),
        (["--set", "alpha"], "write it as name=value"),
        (["--set", "alpha=7"], "alpha=7"),
        (["--method", "isomap", "--epsilon", "1"], "--epsilon: isomap has no parameter epsilon"),
        (["--set", "metric=precomputed"], "need Python"),
        (["--components", "many"], "n_components"),
        (["--method", "umap"], "'umap' is not one of"),
        (["--columns", ","], "names no column"),
    ]:
        answer = call("fit", wine, *save, *words)
        assert answer.exit_code == 2, words
        assert message in answer.stderr
        assert "Traceback" not in answer.output


def test_the_kernel_can_be_chosen_and_the_default_is_the_librarys(wine):
    save = ["--id", "bottle", "--save", wine.with_name("m.outfold")]
    for words, kernel in (([], "auto"), (["--kernel", "variable", "--set", "t=0"], "variable")):
        done("fit", wine, *save, *words)
        assert storage.open_model(wine.with_name("m.outfold"))[0].kernel == kernel
    assert "kernel='wrong' is not known" in call("fit", wine, *save, "--kernel", "wrong").stderr


def test_parameters_are_told_as_the_command_spells_them(wine):
    for words, told in [
        (["--neighbors", 5000], "(On the command line: --neighbors.)"),
        (
            ["--neighbors", 5000, "--set", "kernel=gaussian"],
            "(On the command line: --neighbors; None is written null.)",
        ),
        (["--components", 900], "(On the command line: --components.)"),
        (["--set", "alpha=7"], "(On the command line: --set alpha=VALUE.)"),
    ]:
        answer = call("fit", wine, "--save", wine.with_name("m.outfold"), *words)
        assert answer.exit_code == 2
        assert told in answer.stderr
    assert "On the command line" not in call("fit", wine, "--id", "a=b", "--save", wine.with_name("m.outfold")).stderr


def test_a_column_with_a_comma_can_be_named():
    assert options.TableOptions('a, "b,c" ,d', None, None, None).names() == ["a", "b,c", "d"]
