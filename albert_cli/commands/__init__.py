"""The subcommands of `albert`: each turns flags into settings and calls the library."""
