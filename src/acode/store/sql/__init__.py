"""What the SQL engines share: every write and read, in terms of named queries."""
