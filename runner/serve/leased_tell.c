/* What is known of a leased run: whether it is to be told of, what failed, its log. */
#include <stdio.h>

#include "base/clock.h"
#include "base/file.h"
#include "runner/serve/leased_priv.h"

bool leased_is_left(struct leased *leased)
{
    char reason[ANSWER_REASON_SIZE];

    return clock_wall_ms() >= leased->ends_ms || teller_was_stopped(leased->teller, reason);
}

void leased_fail(struct leased *leased, const char *what)
{
    if (leased->fault[0] == '\0') (void)snprintf(leased->fault, sizeof leased->fault, "%s", what);
}

/* What the runner itself adds counts, too. */
void leased_add_log(struct leased *leased, struct bytes piece)
{
    const uint64_t room = (uint64_t)leased->verdict->spec->limits.log_bytes - leased->log_bytes;
    struct error err = {0};

    if (piece.length > room) piece.length = (size_t)room;
    if (piece.length == 0 || leased->fault[0] != '\0') return;
    if (file_write_at(leased->log, piece.data, piece.length, leased->log_bytes, &err).ok) {
        leased->log_bytes += piece.length;
        leased->is_in_line = piece.data[piece.length - 1] != '\n';
        teller_add_log(leased->teller, piece.length);
        return;
    }
    leased_fail(leased, "the runner's machine has no room for the log");
    leased->stops = leased->fault;
    worker_cancelled = 1;
}
