/*
 * audit/sequencer_priv.h -- what the threads of the sequencer share.
 *
 * Four threads. The group thread alone appends and owns the fields below it. The clerk finds subjects' keys, because
 * keyd may be slow. The signer has checkpoints signed. The watch gives back what waited too long: it never waits for
 * anything but time, so a deadline holds even when the database stands still.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "audit/audit_store.h"
#include "audit/event_priv.h"
#include "audit/log_clock_priv.h"
#include "audit/log_memory_priv.h"
#include "audit/log_tiles_priv.h"
#include "audit/metrics.h"

#define GROUP_RECORDS_MAX 1000
#define BURSTS_MAX        34 /* at a time: of strangers, of 32 organisations or issuers, and one of all others */
#define GROUP_OWN_MAX     (2 * BURSTS_MAX + 3) /* closing bursts, opening them, refused, unrecorded, a step of the clock */
#define GROUP_EVENTS_MAX  (GROUP_RECORDS_MAX + GROUP_OWN_MAX)
#define GROUP_KEYS_MAX    ((size_t)GROUP_EVENTS_MAX * LEAF_KEYS_MAX)
#define GROUP_FACTS_MAX   ((size_t)GROUP_RECORDS_MAX * ACTION_PAIRS_MAX)
#define GROUP_SLOTS       32768 /* of the hash table over keys; a power of two, twice as many as keys */
#define GROUP_ORGANISATIONS_MAX 256 /* whose changes are looked at; decisions beyond them are stale with any change */
#define GROUP_TILES_MAX   (GROUP_EVENTS_MAX / TILE_WIDTH + 1 + TILE_LEVEL_MAX)

#define WAITING_MAX        65536 /* records; more than a gateway has connections */
#define SUBJECTS_MAX       4096  /* in the cache: 128 KiB of locked memory */
#define DEADLINE_MS        10000
#define UNSIGNED_MAX_MS    5000  /* docs/formats/audit-log.md section 15 */
#define SIGN_INTERVAL_MS   200
#define SIGN_IDLE_MS       1000
#define SIGN_TRIES         20    /* each is lost only to another gateway that had more signed meanwhile */
#define SIGN_AT_END_SHARE  4     /* the end waits for a last signature for so many times less than a record for the log */
#define WATCH_INTERVAL_MS  50
#define OWN_INTERVAL_MS    2000  /* how long a counter may wait to become an event */
#define BURST_WINDOW_MS    10000
#define BURST_BOUND        65536 /* requests that one burst stands for at most */
#define BURST_EARLY_MAX    16    /* bursts of one realm that end early for more rows, in a minute: 32 events */
#define BURST_MINUTE_MS    60000
#define CHALLENGES_PER_S   20    /* recorded one by one; more fold */
#define CHALLENGES_AT_ONCE 50
#define BACKOFF_MIN_MS     50
#define BACKOFF_MAX_MS     2000

#define ALTERATION_SLOTS   1024  /* repositories that share one only make each other read again */

#define AUDIT_PARTITION_BITS 24  /* entries of a partition: migrations/0002_audit.sql */
#define APPEND_TABLES_MAX    32  /* statement tables of changes, and ours */
#define ANONYMOUS_NAME_SIZE  16  /* "2026-11-20" */

struct record_queue {
    struct record *first, **end;
    size_t count;
};

struct group_tile {
    unsigned level;
    uint64_t index;
    struct merkle_hash hashes[TILE_WIDTH], root;
};

/** The events of one transaction. Lives as long as the sequencer: nothing of it is allocated per group. */
struct group {
    size_t count;
    struct event events[GROUP_EVENTS_MAX];
    bool raises_epoch;
    struct record_queue stale;
    uint64_t end_number; /* of this gateway's numbering, after the group */
    struct audit_state state;
    struct merkle_frontier frontier;
    struct buffer boxes, leaves, frontier_text;
    struct leaf leaf;

    size_t organisation_count; /* that its decisions depend on; the registry is the first */
    struct uuid organisations[GROUP_ORGANISATIONS_MAX];
    struct bytes organisation_views[GROUP_ORGANISATIONS_MAX];
    uint64_t organisation_epochs[GROUP_ORGANISATIONS_MAX]; /* of the last change in each, once the state is read */
    struct audit_fence fence; /* when it is not */

    size_t key_count; /* distinct keys: id, head and how many events of the group have it */
    uint8_t key_ids[GROUP_KEYS_MAX][LEAF_KEY_ID_SIZE];
    struct bytes key_views[GROUP_KEYS_MAX];
    int64_t heads[GROUP_KEYS_MAX];
    uint32_t uses[GROUP_KEYS_MAX]; /* events of the group that stand under it */
    uint16_t slots[GROUP_SLOTS];         /* place + 1 */
    uint16_t key_slots[GROUP_KEYS_MAX];  /* where that is; only these are cleared */

    bool tail_is_known;
    struct merkle_hash tail[TILE_WIDTH]; /* of the tile that is being filled */
    size_t tile_count;
    struct group_tile tiles[GROUP_TILES_MAX];

    struct group_columns { /* of the rows that are inserted */
        struct bytes leaves[GROUP_EVENTS_MAX], hashes[GROUP_EVENTS_MAX];
        struct bytes actions[GROUP_EVENTS_MAX], outcomes[GROUP_EVENTS_MAX];
        struct bytes keys[GROUP_KEYS_MAX];
        int64_t numbers[GROUP_KEYS_MAX], firsts[GROUP_KEYS_MAX], untils[GROUP_KEYS_MAX];
        int64_t sequences[GROUP_KEYS_MAX];
        size_t next[GROUP_KEYS_MAX]; /* where the next sequence of a key goes */
        int64_t payload_sequences[GROUP_EVENTS_MAX];
        struct bytes payload_subjects[GROUP_EVENTS_MAX], payload_salts[GROUP_EVENTS_MAX];
        struct bytes payload_boxes[GROUP_EVENTS_MAX];
        struct bytes facts_digests[GROUP_FACTS_MAX], facts[GROUP_FACTS_MAX];
        int64_t tile_levels[GROUP_TILES_MAX], tile_indices[GROUP_TILES_MAX];
        struct bytes tile_hashes[GROUP_TILES_MAX], tile_roots[GROUP_TILES_MAX];
    } columns;
};

/** A group whose COMMIT was sent and not answered, and whose records could wait no longer. */
struct doubt {
    bool exists;
    struct pg_backend backend; /* that it was sent to */
    uint64_t sequence, end_number;
    struct merkle_hash hash; /* of its first entry */
    size_t records;
    size_t own_count;
    struct event own[GROUP_OWN_MAX];
};

/**
 * Requests that are counted together. An opening entry is durable before the first of them is answered; what is open
 * when the process dies was at most BURST_BOUND.
 */
struct burst {
    bool is_used;             /* it is of `realm` now */
    bool is_open, is_wanted;
    char realm[SUBJECT_TEXT_MAX + 1]; /* name of an organisation, or URL of an issuer; "" for the two that are fixed */
    char organisation[SUBJECT_TEXT_MAX + 1]; /* the same, if it is one; else "" */
    uint64_t opened; /* sequence number */
    int64_t opened_ms;
    struct audit_subject *day, *next_day; /* seals the rows, and those of the next; pinned */
    uint64_t count;
    struct tally tally;
    bool is_full;             /* it ends early, because a request has no row for its target */
    unsigned early;           /* how many of this realm ended so in the minute that began then */
    int64_t minute_ms;
};

struct sequencer {
    struct keyd_client *keyd;
    void (*notice)(const char *what, const struct error *why); /* or NULL */
    struct note_key log_key; /* of sijil-keyd, from the start on */
    char origin[128], instance[64];
    unsigned deadline_ms;
    struct subject_cache *subjects;
    size_t thread_count; /* of the four that run */
    pthread_t group_thread, clerk_thread, sign_thread, watch_thread;
    atomic_uint_fast64_t refused;
    atomic_uint_fast64_t altered, altered_slots[ALTERATION_SLOTS]; /* counters; slots by repository */

    pthread_mutex_t mutex; /* guards down to `group`; never held over I/O */
    pthread_cond_t work, unresolved_work, sign_work, sign_done, watch_work;
    struct record_queue ready, unresolved, folding, overflow;
    bool is_stopping, clerk_is_done, group_is_done;
    bool is_broken;             /* the last append failed */
    struct error last_error;
    uint64_t unrecorded;        /* not yet the subject of an event */
    int64_t unrecorded_since_ms;
    struct error forked;        /* ERROR_NONE, or what contradicts the signed log: for good */
    bool fork_is_told;          /* to sijil-keyd, so that it outlives this process */
    uint64_t appended_size;
    struct signed_checkpoint newest; /* that sijil-keyd signed and we verified; size 0: none */
    int64_t unsigned_since_ms;  /* 0: all is signed; sequencer_note_unsigned() sets it */
    bool sign_is_broken, sign_is_wanted; /* wanted: at once */
    uint64_t sign_failures;     /* rounds that failed */
    struct error sign_error;
    int64_t challenge_credit_ms; /* token bucket, in milliseconds of credit */
    int64_t challenge_at_ms;
    int64_t flight_deadline_ms; /* of the group that is being appended; 0: none */
    int flight_socket;          /* a duplicate of the connection's, so that the watch may cut it; -1: none */

    /* The group thread's own. */
    struct pg *pg;
    struct pg_backend backend; /* at its other end */
    struct group *group;
    uint64_t boot, next_number;
    size_t group_limit;
    int64_t retry_at_ms, backoff_ms, refused_at_ms;
    uint64_t tail_size; /* for which `tail` is right */
    struct merkle_hash tail[TILE_WIDTH];
    struct log_memory *memory;
    struct burst bursts[BURSTS_MAX]; /* 0: of strangers; 1: of those for whom there is no other */
    struct doubt doubt;
    struct log_clock clock;

    /* The signer's own. */
    uint64_t strange_size; /* of the newest row of audit_checkpoint that nobody signed; 0: none */
    struct pg *sign_pg;
    struct log_tiles *sign_tiles;
    uint64_t partitions; /* made so far */

    struct pg *clerk_pg; /* the clerk's own */
};

/* sequencer.c */
/** Issuer and subject whose key seals the record's payload; `anonymous` is room for one that has no name. */
void record_subject(const struct record *record, char anonymous[ANONYMOUS_NAME_SIZE], const char *names_out[2]);
/** For record->day: whose key seals the burst that counts it, if it is of a known principal. False: it needs none. */
bool record_day(const struct record *record, char anonymous[ANONYMOUS_NAME_SIZE], const char *names_out[2]);
/** Whether the event says a pseudonym besides the actor's: record->concerned. */
bool record_concerns_somebody(const struct record *record);

/* sequencer_queue.c */
void queue_init(struct record_queue *queue);
void queue_add(struct record_queue *queue, struct record *record);
void queue_add_front(struct record_queue *queue, struct record *record);
struct record *queue_take(struct record_queue *queue);
/** Tells whoever waits for the record, once. Not under the mutex. */
void sequencer_complete(struct sequencer *sequencer, struct record *record, enum record_status status);
/** RECORD_UNAVAILABLE for all of them, counted as unrecorded. Not under the mutex. */
void sequencer_give_up(struct sequencer *sequencer, struct record_queue *queue, const struct error *why);
/** Waits on `condition` up to the given time of the monotonic clock; under the mutex. */
void sequencer_wait(struct sequencer *sequencer, pthread_cond_t *condition, int64_t until_ms);

/* sequencer_fold.c: under the mutex, but for the two that say so */
bool fold_takes(struct sequencer *sequencer, int64_t now_ms);
/** The earliest moment at which an event of the sequencer's own is due; INT64_MAX: none. */
int64_t own_due_ms(const struct sequencer *sequencer);
/** Adds the own events that are due to the group, moves what an open burst covers to `released`. */
void own_collect(struct sequencer *sequencer, int64_t now_ms, struct record_queue *released);
/** The event is durable. Not under the mutex. */
void own_apply(struct sequencer *sequencer, const struct event *event);

/* sequencer_group.c */
void *sequencer_group_run(void *argument);
/** The connection is new: the watch is to cut this one when a group is under way for too long. */
void sequencer_watch_socket(struct sequencer *sequencer);

/* sequencer_append.c */
/** Numbers the events, seals their payloads, gathers their keys. */
RESULT group_prepare(struct sequencer *sequencer, struct group *group, struct error *err);
/** Everything from BEGIN to COMMIT. On success the events that are left in the group are durable. */
RESULT group_append(struct sequencer *sequencer, struct group *group, struct error *err);

/* sequencer_rights.c */
/** Gathers what the decisions of the group depend on. */
void group_gather_rights(struct group *group);
struct audit_rights group_rights(struct group *group);
/** After state and rights were read: something that its decision depends on has changed since it was made. */
bool group_is_stale(const struct group *group, const struct event *event);
/** What must be so for none to be stale. False: that can't be said in one fence. */
bool group_fence(const struct group *group, struct audit_fence *fence_out);

/* sequencer_write.c */
void group_clear_keys(struct group *group);
/** The place of a key in the group's table; it is added if it is new. */
uint32_t group_key_place(struct group *group, const char *name);
/**
 * Leaves, hashes, ordinals, tiles and columns, from the state on; then the last round trip. With `is_refused_out` it is
 * the only one, because the state was remembered: audit_close_at_once() says what becomes of *is_refused_out.
 */
RESULT group_write(struct sequencer *sequencer, struct group *group, bool *is_refused_out, struct error *err);
/** The change of this event that is to be made, or NULL. */
struct change *event_change(const struct event *event);
/** For which permit an event's change is made. */
const struct permit *event_permit(const struct event *event);

/* sequencer_alter.c */
/** A change of the group's is durable. Before whoever waits for it is told. */
void sequencer_note_change(struct sequencer *sequencer, const struct change *change);
/** Anything may have changed. */
void sequencer_note_all(struct sequencer *sequencer);

/* sequencer_burst.c: under the mutex, but for the last */
/** Moves what open bursts cover to `released`, counted; what is left wants bursts of its own. */
void bursts_release(struct sequencer *sequencer, struct record_queue *released);
/** Adds the events that close and open bursts. */
void bursts_collect(struct sequencer *sequencer, int64_t now_ms);
int64_t bursts_due_ms(const struct sequencer *sequencer);
/** OWN_BURST_* is durable. */
void bursts_apply(struct sequencer *sequencer, const struct event *event);

/** Tells the program's log. Not under the mutex. */
void sequencer_notice(const struct sequencer *sequencer, const char *what, const struct error *why);
/** Under the mutex: is it over for good? */
static inline bool sequencer_is_forked(const struct sequencer *sequencer)
{
    return sequencer->forked.kind != ERROR_NONE;
}

/* sequencer_clerk.c, sequencer_sign.c */
void *sequencer_clerk_run(void *argument);
void *sequencer_watch_run(void *argument);
void *sequencer_sign_run(void *argument);
/** Has keyd sign what the database has by now, unless it did. The signer's, and the start's. */
/** Under the mutex: since when an entry is not signed, monotonic; 0: all are. */
void sequencer_note_unsigned(struct sequencer *sequencer, int64_t since_ms);
RESULT sequencer_sign_now(struct sequencer *sequencer, struct error *err);

/* sequencer_check.c */
/** At start: the log in the database must continue what keyd has signed, leaf by leaf where keyd has signed nothing yet. */
RESULT sequencer_check_log(struct sequencer *sequencer, struct error *err);
/** Says what happened, from which size to which, and what is needed. `last_time_ms` is of the last event that there is. */
RESULT sequencer_refuse_shrunken(uint64_t size, int64_t last_time_ms, uint64_t signed_size, struct error *err);
/** So far ahead of the clock that the last entry is looked at: does it have that time? */
RESULT sequencer_check_last_time(struct pg *pg, uint64_t size, int64_t last_time_ms, struct error *err);
