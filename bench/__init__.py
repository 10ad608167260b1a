"""What acode costs, measured beside its peers. One file per question; `python -m bench --help`."""
