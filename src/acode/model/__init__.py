"""Plain frozen data: what acode talks about. Imports nothing of ours."""
