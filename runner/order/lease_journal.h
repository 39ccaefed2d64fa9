/*
 * runner/order/lease_journal.h -- a durable record of the leases that this runner has taken: no lease is ever taken twice.
 *
 * A lease is written down, with its nonce, before its artifacts are fetched and its code runs. Its end is written down when the
 * registry knows of it. A lease that has ended and expired is removed. So after a crash the unfinished leases are exactly those
 * for which the registry may still wait.
 *
 * Many short runs can end long before their leases expire. If there is no room, the journal forgets the ended lease that began first. From then on
 * it takes no lease that began at that lease's beginning or earlier. So it never fills up, and no lease is taken twice.
 *
 * The journal also keeps the latest time that it has seen. A lease that was over at that time is refused, even if the clock was
 * set back.
 *
 * Two files in the runner's folder: `leases.journal` (journal/journal.h) and `leases.key`. The generation rises with each change and
 * each start. If somebody restores older files, the generation falls. The runner sends its generation with each request for work,
 * and the registry suspends a runner whose generation fell.
 */
#pragma once

#include "base/bytes.h"
#include "base/owned.h"
#include "base/uuid.h"

#define LEASE_NONCE_SIZE  16
#define LEASE_DIGEST_SIZE 32
#define LEASES_MAX        1000

struct taken_lease {
    uint8_t nonce[LEASE_NONCE_SIZE];
    uint8_t digest[LEASE_DIGEST_SIZE]; /* of the envelope */
    struct uuid run;
    uint8_t attempt, node;
    bool has_ended;
    int64_t begins_ms, expires_ms;
};

struct lease_journal;

/**
 * Opens the journal in the open folder, or makes the first one. The generation has risen when it returns. ERROR_CONFLICT if another
 * process has it open; ERROR_CORRUPT if it is damaged, or if only its key is there.
 */
RESULT lease_journal_open(int folder, struct lease_journal **journal_out, struct error *err);
uint64_t lease_journal_generation(const struct lease_journal *journal);
/** The latest time that it has seen, in milliseconds since 1970. */
int64_t lease_journal_latest_ms(const struct lease_journal *journal);

/** Whether another lease can be taken. It can't be while LEASES_MAX leases have not ended. */
bool lease_journal_has_room(const struct lease_journal *journal);
/**
 * Whether the lease may be taken: ERROR_CONFLICT if its nonce or digest was taken before; ERROR_LIMIT if there is no room, or if it began so
 * long ago that the journal does not know any more whether it was taken.
 */
RESULT lease_journal_check(const struct lease_journal *journal, const struct taken_lease *lease, struct error *err);
/**
 * Does lease_journal_check(), then records the lease, durably. `now_ms` is the wall time. ERROR_UNAVAILABLE, ERROR_FULL as
 * journal_write().
 */
RESULT lease_journal_take(struct lease_journal *journal, const struct taken_lease *lease, int64_t now_ms, struct error *err);
/** Records that the registry knows the lease's end. ERROR_NOT_FOUND if it was never taken. */
RESULT lease_journal_end(struct lease_journal *journal, const uint8_t nonce[LEASE_NONCE_SIZE], struct error *err);
/** The lease with this nonce, ended or not; NULL. Valid until the next change. */
const struct taken_lease *lease_journal_find(const struct lease_journal *journal, const uint8_t nonce[LEASE_NONCE_SIZE]);
/** Copies the leases that have not ended, at most `room` of them, to `leases`. Returns the number of copied leases. */
size_t lease_journal_list(const struct lease_journal *journal, struct taken_lease *leases, size_t room);

void lease_journal_free(struct lease_journal *journal);
DEFINE_OWNED(lease_journal);
