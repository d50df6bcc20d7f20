"""One module per verb: `add_arguments(parser)` and `command(args)`."""
