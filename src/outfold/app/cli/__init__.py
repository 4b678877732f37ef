"""The command line ``outfold``: its commands, their options and their output."""
