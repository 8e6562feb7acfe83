#!/usr/bin/env bash
# Runs a Python test; no bytecode is left in the tree.
exec /usr/bin/python3 -B "$@"
