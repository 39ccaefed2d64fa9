#!/bin/sh
# Functions that nobody here calls, each for a reason. usage: banned.sh SOURCE-FOLDER
set -eu
cd "$1"
layers=$(grep -v '^#' tests/lint/layers.txt)
present=$(printf '%s\n' $layers bench | cut -d/ -f1 | sort -u)
bad=0

# ban WORDS WHY [EXCEPT-FILES]: whole words followed by "(", outside comments
ban() {
    found=$(find $present -name '*.[ch]' | sort | xargs grep -HnE "(^|[^A-Za-z0-9_])($1)[[:space:]]*\(" |
        grep -vE "^[^:]+:[0-9]+:[[:space:]]*(/?\*|//)" | { [ -n "${3:-}" ] && grep -vE "^($3):" || cat; }) || true
    [ -z "$found" ] || { printf '%s\n  ^ %s\n' "$found" "$2"; bad=1; }
}
ban 'strcpy|strcat|stpcpy|sprintf|vsprintf|gets|strncpy|strncat' 'no bound, or one that lies: use struct buffer or snprintf'
ban 'atoi|atol|atoll|atof|strtol|strtoul|strtoll|strtoull|sscanf|fscanf' 'accepts what is no number: use base/text.h'
ban 'strtok|strtok_r|strerror_l|gmtime|localtime|asctime|ctime' 'hidden state: split by hand, use base/clock.h'
ban 'malloc|calloc|realloc|strdup|strndup|asprintf|vasprintf|reallocarray' 'one door to the heap: base/memory.h' 'base/memory\.[ch]'
ban 'alloca' 'no bound'
ban 'system|popen|execlp|execvp' 'no shell, no search path' 'embedded/[a-z_]+\.c|cmd/sijil_inside\.c|runner/pod/payload_inner\.c' # in a sandbox the path is of the payload
ban 'rand|srand|random|srandom|drand48|rand_r' 'not random: use crypto/random.h or uuid_random()'
ban 'mktemp|tmpnam|tempnam' 'a race: use mkstemp or file_replace()'
ban 'signal' 'use sigaction or signalfd'
ban 'PQexec|PQexecParams' 'no SQL text at run time: prepared statements in a table' 'storage/(pg[a-z_]*|migrate)\.c|bench/log_copy\.c'
# The way out is outgoing/. Other code that connects: the bench, to the measured servers; calls on this machine, to sijil-keyd, the
# service manager, the runner of a cluster's node, and in a pod the agent; the agent itself, to its runner; runners, to those of other nodes; and what shows that a sandbox is closed. PostgreSQL is reached through libpq.
ban 'curl_[a-z_]+' 'one way out: use outgoing/call.h' '(outgoing|bench)/[a-z_]+\.[ch]'
ban 'connect' 'one way out: use outgoing/call.h' 'bench/tls_bench\.c|crypto/keyd_call\.c|runner/jobs/job\.c|base/notify\.c|runner/sandbox/closed\.c|runner/pod/(loopback|payload)\.c|runner/talk/talk_sockets\.c'
ban 'getaddrinfo|gethostbyname|gethostbyname2|gethostbyname_r|res_query|res_search' 'names are resolved by outgoing/, which checks the address' 'outgoing/addresses\.c'
ban 'PQconnect[A-Za-z]*|PQsetdbLogin|PQsetdb' 'only storage/ reaches PostgreSQL' 'storage/pg_[a-z]+\.c'
ban 'gnutls_transport_set_[a-z_]+|SSL_connect|BIO_new_connect|BIO_do_connect' 'one way out: use outgoing/call.h' 'bench/[a-z_]+\.c|gateway/http/[a-z_]+\.c|crypto/tls\.c'
present='tests'
ban 'kill|killpg' 'may hit the group that ctest is in: use tests/support/signal_process.h' 'tests/support/signal_process\.h|tests/unit/test_keyd\.c'
exit $bad
