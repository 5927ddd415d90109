module sweyard.dev/tests/probe

go 1.26
