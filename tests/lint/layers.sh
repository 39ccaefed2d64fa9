#!/bin/sh
# A file may include headers of its own folder and of the folders before it, never of one after it.
# A header named *_priv.h is for its own folder alone.
set -eu
cd "$1"
layers="base crypto storage audit keyd authz policy registry training gateway client embedded cmd"

find $layers -name '*.[ch]' 2>/dev/null | sort | xargs grep -Hn '^#include "' | awk -v layers="$layers" '
BEGIN { count = split(layers, names, " "); for (i = 1; i <= count; i++) rank[names[i]] = i }
{
    split($0, where, ":"); split(where[1], from, "/"); split($0, quoted, "\""); split(quoted[2], to, "/")
    if (!(to[1] in rank)) problem = "is not of the form \"folder/file.h\""
    else if (rank[to[1]] > rank[from[1]]) problem = "points upwards: " from[1] " may not use " to[1]
    else if (quoted[2] ~ /_priv\.h$/ && to[1] != from[1]) problem = "is private to " to[1]
    else next
    printf "%s:%s: \"%s\" %s\n", where[1], where[2], quoted[2], problem; bad = 1
}
END { exit bad }'
