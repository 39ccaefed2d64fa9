/*
 * audit/sequencer_priv.h -- the state that the threads of the sequencer share.
 *
 * Four threads. The group thread alone appends; it owns the fields marked as its own. The resolver finds the keys of
 * subjects, because keyd may be slow. The signer has checkpoints signed. The watchdog fails records that have waited
 * past their deadline. It never waits for the database or keyd, so deadlines hold even when the database hangs.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "audit/audit_store.h"
#include "audit/event_priv.h"
#include "audit/log_cache_priv.h"
#include "audit/log_clock_priv.h"
#include "audit/log_key_list.h"
#include "audit/log_tiles_priv.h"
#include "audit/metrics.h"

#define GROUP_RECORDS_MAX       1000
#define BURSTS_MAX              34 /* open ones: one of clients without a credential, 32 of organisations or issuers, and one of all others */
#define GROUP_GRANTS_MAX        AUDIT_CHANGES_TOGETHER /* roles that one group gives: an event of a read waits for them */
#define GROUP_OWN_MAX           (2 * BURSTS_MAX + 3)   /* close bursts, open bursts, refused, unrecorded, clock step */
#define GROUP_EVENTS_MAX        (GROUP_RECORDS_MAX + GROUP_OWN_MAX)
#define GROUP_KEYS_MAX          ((size_t)GROUP_EVENTS_MAX * LEAF_KEYS_MAX)
#define GROUP_FACTS_MAX         ((size_t)GROUP_RECORDS_MAX * ACTION_PAIRS_MAX)
#define GROUP_SLOTS             32768 /* of the hash table over keys; a power of two, more than twice the number of keys */
#define GROUP_ORGANISATIONS_MAX 256   /* whose changes are compared; a decision that depends on more is stale after any change */
#define GROUP_TILES_MAX         (GROUP_EVENTS_MAX / TILE_WIDTH + 1 + TILE_LEVEL_MAX)

#define WAITING_MAX          65536 /* records; more than a gateway has connections */
#define SUBJECTS_MAX         4096  /* in the cache: 128 KiB of locked memory */
#define DEADLINE_MS          10000
#define UNSIGNED_MAX_MS      5000 /* docs/formats/audit-log.md section 15 */
#define SIGN_INTERVAL_MS     200
#define SIGN_IDLE_MS         1000
#define SIGN_TRIES           20 /* each try fails only if another gateway had a larger log signed in the meantime */
#define SIGN_AT_END_SHARE    4  /* the last signature at shutdown may take a record's deadline, divided by this */
#define WATCHDOG_INTERVAL_MS 50
#define OWN_INTERVAL_MS      2000 /* a counter becomes an event within this time */
#define BURST_WINDOW_MS      10000
#define BURST_BOUND          65536 /* the most requests that one burst stands for */
#define BURST_EARLY_MAX      16    /* bursts of one realm that may end early in a minute to get more rows: 32 events */
#define BURST_MINUTE_MS      60000
#define CHALLENGES_PER_S     20 /* recorded one by one; further ones are counted */
#define CHALLENGES_BURST     50
#define BACKOFF_MIN_MS       50
#define BACKOFF_MAX_MS       2000

#define ALTERATION_SLOTS 1024 /* a change also invalidates cached rows of other repositories in the slot */

#define AUDIT_PARTITION_BITS 24                         /* entries of a partition: migrations/0002_audit.sql */
#define APPEND_TABLES_MAX    (SEQUENCER_TABLES_MAX + 2) /* the sequencer's own two, too */
#define ANONYMOUS_NAME_SIZE  16                         /* "2026-11-20" */

struct record_queue {
    struct record *first, **end;
    size_t count;
};

struct group_tile {
    unsigned level;
    uint64_t index;
    struct merkle_hash hashes[TILE_WIDTH], root;
};

/** The events of one transaction. It lives as long as the sequencer, so a group allocates nothing. */
struct group {
    size_t count;
    struct event events[GROUP_EVENTS_MAX];
    bool raises_epoch, takes; /* takes: by a change that does more than give a role */
    struct record_queue stale;
    uint64_t end_number; /* of this gateway's numbering, after the group */
    struct audit_state state;
    struct merkle_frontier frontier;
    struct buffer boxes, leaves, frontier_text;
    struct leaf leaf;

    size_t organisation_count; /* organisations that the group's decisions depend on; the first is the registry */
    struct uuid organisations[GROUP_ORGANISATIONS_MAX];
    struct bytes organisation_views[GROUP_ORGANISATIONS_MAX];
    uint64_t organisation_epochs[GROUP_ORGANISATIONS_MAX]; /* of the last change in each, set when the state is read */
    uint64_t organisation_taken[GROUP_ORGANISATIONS_MAX];  /* the same without those that only gave a role */
    struct audit_fence fence;                              /* used when the state comes from the cache */

    size_t key_count; /* distinct keys: their ids, heads and uses */
    uint8_t key_ids[GROUP_KEYS_MAX][LEAF_KEY_ID_SIZE];
    struct bytes key_views[GROUP_KEYS_MAX];
    int64_t heads[GROUP_KEYS_MAX];
    uint32_t uses[GROUP_KEYS_MAX];    /* the number of the group's events with this key */
    size_t missing_count;             /* keys whose heads are not in the cache: they are read */
    uint32_t missing[GROUP_KEYS_MAX]; /* their indices */
    struct bytes missing_views[GROUP_KEYS_MAX];
    int64_t missing_heads[GROUP_KEYS_MAX];
    uint16_t slots[GROUP_SLOTS];        /* index + 1; 0: free */
    uint16_t key_slots[GROUP_KEYS_MAX]; /* the slot of each key: only these are cleared */

    bool tail_is_known;
    struct merkle_hash tail[TILE_WIDTH]; /* the hashes so far of the tile that is being filled */
    size_t tile_count;
    struct group_tile tiles[GROUP_TILES_MAX];

    struct group_columns { /* of the inserted rows */
        struct bytes leaves[GROUP_EVENTS_MAX], hashes[GROUP_EVENTS_MAX];
        struct bytes actions[GROUP_EVENTS_MAX], outcomes[GROUP_EVENTS_MAX];
        struct bytes keys[GROUP_KEYS_MAX];
        int64_t ordinals[GROUP_KEYS_MAX], firsts[GROUP_KEYS_MAX], untils[GROUP_KEYS_MAX];
        int64_t sequences[GROUP_KEYS_MAX];
        size_t next[GROUP_KEYS_MAX]; /* the index at which the key's next sequence is written */
        int64_t payload_sequences[GROUP_EVENTS_MAX];
        struct bytes payload_subjects[GROUP_EVENTS_MAX], payload_salts[GROUP_EVENTS_MAX];
        struct bytes payload_boxes[GROUP_EVENTS_MAX];
        struct bytes facts_digests[GROUP_FACTS_MAX], facts[GROUP_FACTS_MAX];
        int64_t tile_levels[GROUP_TILES_MAX], tile_indices[GROUP_TILES_MAX];
        struct bytes tile_hashes[GROUP_TILES_MAX], tile_roots[GROUP_TILES_MAX];
    } columns;
};

/** A group whose COMMIT was sent and not answered before the deadline of its records. */
struct uncertain_commit {
    bool exists;
    struct pg_backend backend; /* the backend that got the COMMIT */
    uint64_t sequence, end_number;
    struct merkle_hash hash; /* of its first entry */
    size_t records;
    size_t own_count;
    struct event own[GROUP_OWN_MAX];
};

/**
 * Requests that are counted together. The opening event is durable before the first of them is answered. If the process
 * dies, an open burst stands for at most BURST_BOUND requests.
 */
struct burst {
    bool is_used; /* the burst belongs to `realm` now */
    bool is_open, is_wanted;
    char realm[SUBJECT_TEXT_MAX + 1];        /* name of an organisation, or URL of an issuer; "" for the two fixed bursts */
    char organisation[SUBJECT_TEXT_MAX + 1]; /* the same if it is an organisation; else "" */
    uint64_t opened;                         /* sequence number */
    int64_t opened_ms;
    struct audit_subject *day, *next_day; /* subjects whose keys seal this burst and the next one; pinned */
    uint64_t count;
    struct tally tally;
    bool is_full;   /* the burst ends early, because a request has no row for its target */
    unsigned early; /* the number of bursts of this realm that ended early in the present minute */
    int64_t minute_ms;
};

struct sequencer {
    struct keyd_client *keyd;
    void (*notice)(const char *what, const struct error *why); /* or NULL */
    struct log_key_list log_keys;                              /* of sijil-keyd, from the start on */
    char origin[128], instance[64];
    bool succeeds; /* of the options */
    unsigned deadline_ms;
    struct subject_cache *subjects;
    size_t thread_count; /* of the four threads */
    pthread_t group_thread, resolver_thread, sign_thread, watchdog_thread;
    atomic_uint_fast64_t refused;
    atomic_uint_fast64_t altered, altered_slots[ALTERATION_SLOTS]; /* counters; the slots are by repository */

    pthread_mutex_t mutex; /* guards the fields down to `append_socket`; never held over I/O */
    pthread_cond_t work, unresolved_work, sign_work, sign_done, watchdog_work;
    struct record_queue ready, unresolved, joining, overflow;
    bool is_stopping, resolver_is_done, group_is_done;
    bool is_broken; /* the last append failed */
    struct error last_error;
    uint64_t unrecorded; /* not yet in an event */
    int64_t unrecorded_since_ms;
    struct error forked;                 /* ERROR_NONE, or the contradiction to the signed log; never cleared */
    bool fork_is_reported;               /* reported to sijil-keyd, so that it outlives this process */
    uint64_t appended_size;              /* of the log behind this gateway's newest group, or of the log at the start */
    struct merkle_hash appended_root;    /* of that log */
    struct signed_checkpoint newest;     /* the newest that sijil-keyd signed and we verified; size 0: none */
    int64_t unsigned_since_ms;           /* 0: all entries are signed; sequencer_note_unsigned() sets it */
    bool sign_is_broken, sign_is_wanted; /* sign_is_wanted: at once */
    uint64_t sign_failures;              /* failed rounds */
    struct error sign_error;
    int64_t challenge_credit_ms; /* token bucket, in milliseconds of credit */
    int64_t challenge_at_ms;
    int64_t append_deadline_ms; /* of the group that is being appended; 0: none */
    int append_socket;          /* a duplicate of the connection's, so that the watchdog can shut it down; -1: none */

    /* Used by the group thread only. */
    struct pg *pg;
    struct pg_backend backend; /* of `pg` */
    uint64_t registry_epoch;   /* of the last change of the registry's own rights that this thread has seen; 0: none yet */
    int64_t erasures;          /* that were in the database then */
    struct group *group;
    uint64_t boot, next_number;
    size_t group_limit;
    int64_t retry_at_ms, backoff_ms, refused_at_ms;
    uint64_t tail_size; /* the size for which `tail` is valid */
    struct merkle_hash tail[TILE_WIDTH];
    struct log_cache *cache;
    struct burst bursts[BURSTS_MAX]; /* 0: requests without a valid credential; 1: realms for which no burst is free */
    struct uncertain_commit uncertain;
    struct log_clock clock;

    /* Used by the signer only. */
    uint64_t continued_size; /* appended_size, which the log in the database continued when it was read last */
    uint64_t kept_size;      /* the same, of a log that is signed since: sijil-keyd looks after it from then on */
    uint64_t foreign_size;   /* of the newest row of audit_checkpoint that keyd has not signed; 0: none */
    struct pg *sign_pg;
    struct log_tiles *sign_tiles;
    uint64_t partitions; /* created so far */

    struct pg *resolver_pg; /* used by the resolver only */
};

/* sequencer_submit.c */
/** Issuer and subject whose key seals the record's payload. For a client without a credential the subject's name is in
 *  `anonymous`. */
void record_subject(const struct record *record, char anonymous[ANONYMOUS_NAME_SIZE], const char *names_out[2]);
/** As record_subject(), for record->day: the subject whose key seals the burst, if the record counts in a burst of known
 *  principals. False: the record needs no such subject. */
bool record_day(const struct record *record, char anonymous[ANONYMOUS_NAME_SIZE], const char *names_out[2]);
/** Whether the event states a second pseudonym besides the actor's: record->concerned. */
bool record_has_subject(const struct record *record);
/** Completes the record, once. Not under the mutex. */
void sequencer_complete(struct sequencer *sequencer, struct record *record, enum record_status status);

/* sequencer_queue.c */
void queue_init(struct record_queue *queue);
void queue_add(struct record_queue *queue, struct record *record);
void queue_add_front(struct record_queue *queue, struct record *record);
struct record *queue_take(struct record_queue *queue);
/** Completes all with RECORD_UNAVAILABLE, and counts them as unrecorded. Not under the mutex. */
void sequencer_give_up(struct sequencer *sequencer, struct record_queue *queue, const struct error *why);
/**
 * Under the mutex: takes the records of the next group, at most as many changes as fit one round trip. The group ends with the change that raises the epoch, or with all of it that
 * only give roles. With is_late, what is no outcome of a permitted operation goes to `unserved`.
 */
void queue_take_group(struct sequencer *sequencer, bool is_late, struct record_queue *taken, struct record_queue *unserved);
/** Waits on `condition` until the given monotonic time. Under the mutex. */
void sequencer_wait(struct sequencer *sequencer, pthread_cond_t *condition, int64_t until_ms);

/* sequencer_counters.c: under the mutex, except own_apply() */
bool challenge_is_counted(struct sequencer *sequencer, int64_t now_ms);
/** The earliest time at which an event of the sequencer's own is due; INT64_MAX: none. */
int64_t own_due_ms(const struct sequencer *sequencer);
/** Adds to the group the sequencer's own events whose time has come. Moves the records that an open burst covers to
 *  `released`. */
void own_collect(struct sequencer *sequencer, int64_t now_ms, struct record_queue *released);
/** Applies a durable event. Not under the mutex. */
void own_apply(struct sequencer *sequencer, const struct event *event);

/* sequencer_group.c */
void *sequencer_group_run(void *argument);
/** Call it for each new connection: the watchdog shuts this connection down when an append takes too long. */
void sequencer_guard_socket(struct sequencer *sequencer);

/* sequencer_append.c */
/** Numbers the events, seals their payloads, collects their keys. */
RESULT group_prepare(struct sequencer *sequencer, struct group *group, struct error *err);
/** Everything from BEGIN to COMMIT. On success the events left in the group are durable. */
RESULT group_append(struct sequencer *sequencer, struct group *group, struct error *err);

/* sequencer_rights.c */
/** Collects the organisations that the group's decisions depend on. */
void group_gather_rights(struct group *group);
struct audit_rights group_rights(struct group *group);
/** Whether the record's change only gives a role, and its decision outlasts such changes: others of the kind may run before it in its group. */
bool record_only_gives(const struct record *record);
/** After state and rights were read: whether something that the event's decision depends on has changed since. */
bool group_is_stale(const struct group *group, const struct event *event);
/** The fence under which no event of the group is stale. False: there is no such fence for these events. */
bool group_fence(const struct group *group, struct audit_fence *fence_out);

/* sequencer_uses.c */
/** Whether the record allows a request that an exception makes possible, and that counts as a use of it. */
bool record_has_uses(const struct record *record);
/**
 * Counts the uses of exceptions (docs/policies.md), in the transaction of their events and under the log's lock. An event that
 * finds none left is beaten: the one that took the last use has raised the epoch, so it is decided again without the exception.
 */
RESULT group_count_uses(struct sequencer *sequencer, struct group *group, struct error *err);
/** How many uses the group has counted. */
int64_t group_uses(const struct group *group);

/* sequencer_write.c */
void group_clear_keys(struct group *group);
/** The index of a key in the group's table. Adds the key if it is new. */
uint32_t group_key_index(struct group *group, const char *name);
/**
 * Makes leaves, hashes, ordinals, tiles and columns from the state, then runs the last round trip. With `is_refused_out` it
 * is the only round trip, because the state came from the cache: audit_close_in_one_trip() sets *is_refused_out.
 */
RESULT group_write(struct sequencer *sequencer, struct group *group, bool *is_refused_out, struct error *err);
/** The event's change that must be made, or NULL. */
struct change *event_change(const struct event *event);
/** The permit under which the event's change is made. */
const struct permit *event_permit(const struct event *event);

/* sequencer_alter.c */
/** A change of the group is durable. Call it before its record is completed. */
void sequencer_note_change(struct sequencer *sequencer, const struct change *change);
/** Any artifact may have changed. */
void sequencer_note_all(struct sequencer *sequencer);

/* sequencer_burst.c: under the mutex, except bursts_apply() */
/** Moves the records that open bursts cover to `released`, and counts them. The others want bursts of their own. */
void bursts_release(struct sequencer *sequencer, struct record_queue *released);
/** Adds the events that close and open bursts. */
void bursts_collect(struct sequencer *sequencer, int64_t now_ms);
int64_t bursts_due_ms(const struct sequencer *sequencer);
/** Applies a durable OWN_BURST_*. */
void bursts_apply(struct sequencer *sequencer, const struct event *event);

/** Passes a message to options.notice. Not under the mutex. */
void sequencer_notice(const struct sequencer *sequencer, const char *what, const struct error *why);
/** Under the mutex: whether the log was found to contradict the signed one. */
static inline bool sequencer_is_forked(const struct sequencer *sequencer)
{
    return sequencer->forked.kind != ERROR_NONE;
}

/* sequencer_resolver.c, sequencer_watchdog.c, sequencer_sign.c */
void *sequencer_resolver_run(void *argument);
void *sequencer_watchdog_run(void *argument);
void *sequencer_sign_run(void *argument);
/** Under the mutex: sets the monotonic time since which an entry is unsigned; 0: all are signed. */
void sequencer_note_unsigned(struct sequencer *sequencer, int64_t since_ms);
RESULT sequencer_sign_now(struct sequencer *sequencer, struct error *err);

/* sequencer_check.c */
/** At start: the log in the database must continue the log that keyd has signed, and entries after the last signature are checked
 *  leaf by leaf. */
RESULT sequencer_check_log(struct sequencer *sequencer, struct error *err);
/** The error for a log that shrank: both sizes, the time of its last event, and what must be restored. */
RESULT sequencer_refuse_shrunken(uint64_t size, int64_t last_time_ms, uint64_t signed_size, struct error *err);
/** For a last time far ahead of the clock: checks that it is the time of the last entry. */
RESULT sequencer_check_last_time(struct pg *pg, uint64_t size, int64_t last_time_ms, struct error *err);
