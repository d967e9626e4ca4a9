"""The whole platform on this machine: what `surefoot up` and `surefoot demo` run."""
