module sweyard.dev/cluster/pause

go 1.26
