#include "registry/upload_table.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"

#define BEGUN_MAX 256 /* sessions whose next request may still use the claim of the POST; older ones are claimed again */

struct slot {
    bool is_used, is_busy, is_overtaken, is_ended;
    struct live_upload live;
    int64_t used_ms; /* monotonic; when it was reserved, made progress, or was given back */
};

struct upload_table {
    pthread_mutex_t lock;
    struct upload_limits limits;
    unsigned idle_count;
    uint64_t tickets;
    struct uuid begun[BEGUN_MAX];
    unsigned begun_next; /* the oldest entry, which is replaced next */
    struct slot *slots;  /* limits.writers_max; few enough to be searched one by one */
};

struct result upload_table_new(const struct upload_limits *limits, struct upload_table **table_out, struct error *err)
{
    assert(limits->writers_max > 0 && limits->idle_max <= limits->writers_max);

    OWNED(upload_table) *table = memory_zeroed(1, sizeof *table);
    if (table == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for uploads");
    table->limits = *limits;
    (void)pthread_mutex_init(&table->lock, NULL);
    table->slots = memory_zeroed(limits->writers_max, sizeof *table->slots);
    if (table->slots == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for uploads");
    *table_out = GIVE(table);
    return SUCCESS;
}

static struct slot *find(struct upload_table *table, const struct uuid *upload)
{
    for (unsigned i = 0; i < table->limits.writers_max; i++) {
        struct slot *slot = &table->slots[i];
        if (slot->is_used && !slot->is_overtaken && uuid_equal(&slot->live.upload, upload)) return slot;
    }
    return NULL;
}

/* Whether this process has noted the session as begun; removes the note. */
static bool take_begun(struct upload_table *table, const struct uuid *upload)
{
    for (unsigned i = 0; i < BEGUN_MAX; i++) {
        if (!uuid_equal(&table->begun[i], upload)) continue;
        table->begun[i] = (struct uuid){0};
        return true;
    }
    return false;
}

static struct slot *find_reservation(struct upload_table *table, uint64_t ticket)
{
    for (unsigned i = 0; i < table->limits.writers_max; i++) {
        struct slot *slot = &table->slots[i];
        if (slot->is_busy && slot->live.ticket == ticket) return slot;
    }
    assert(false && "a reservation that was not made");
    return NULL;
}

static struct slot *find_free(struct upload_table *table)
{
    for (unsigned i = 0; i < table->limits.writers_max; i++)
        if (!table->slots[i].is_used) return &table->slots[i];
    return NULL;
}

static struct slot *find_oldest_idle(struct upload_table *table)
{
    struct slot *oldest = NULL;

    for (unsigned i = 0; i < table->limits.writers_max; i++) {
        struct slot *slot = &table->slots[i];
        if (!slot->is_used || slot->is_busy) continue;
        if (oldest == NULL || slot->used_ms < oldest->used_ms) oldest = slot;
    }
    return oldest;
}

/* Takes an idle writer out of its slot. The caller frees it after it releases the lock, because freeing may access the disk. */
static struct blob_writer *evict(struct upload_table *table, struct slot *slot)
{
    assert(slot != NULL);
    struct blob_writer *writer = slot->live.writer;

    *slot = (struct slot){0};
    table->idle_count--;
    return writer;
}

/* A slot for the session: a free one, or that of the oldest idle writer. NULL if all slots are busy. */
static struct slot *make_room(struct upload_table *table, const struct uuid *upload, struct blob_writer **evicted_out)
{
    struct slot *slot = find_free(table);

    if (slot == NULL) {
        slot = find_oldest_idle(table);
        if (slot == NULL) return NULL;
        *evicted_out = evict(table, slot);
    }
    *slot = (struct slot){.is_used = true, .live = {.upload = *upload}};
    return slot;
}

static void reserve(struct upload_table *table, struct slot *slot, struct live_upload *live_out)
{
    slot->is_busy = true;
    slot->used_ms = clock_monotonic_ms();
    slot->live.ticket = ++table->tickets;
    *live_out = slot->live;
    slot->live.writer = NULL;
}

/* With the lock held. */
static struct result take(struct upload_table *table, const struct uuid *upload, struct live_upload *live_out,
                          struct blob_writer **evicted_out, struct error *err)
{
    struct slot *slot = find(table, upload);

    if (slot != NULL && slot->is_busy) {
        if (clock_monotonic_ms() - slot->used_ms < UPLOAD_STALLED_MS)
            return failure(err, ERROR_CONFLICT, "another request is writing to this upload now");
        slot->is_overtaken = true;
        slot = NULL;
    } else if (slot != NULL) {
        table->idle_count--;
    }
    if (slot == NULL) slot = make_room(table, upload, evicted_out);
    if (slot == NULL)
        return failure(err, ERROR_LIMIT, "%u uploads write at the same time already; try again later", table->limits.writers_max);
    reserve(table, slot, live_out);
    live_out->is_begun = take_begun(table, upload);
    return SUCCESS;
}

struct result upload_table_take(struct upload_table *table, const struct uuid *upload, struct live_upload *live_out,
                                struct error *err)
{
    OWNED(blob_writer) *evicted = NULL;

    (void)pthread_mutex_lock(&table->lock);
    const struct result taken = take(table, upload, live_out, &evicted, err);
    (void)pthread_mutex_unlock(&table->lock);
    return taken;
}

void upload_table_note_begun(struct upload_table *table, const struct uuid *upload)
{
    (void)pthread_mutex_lock(&table->lock);
    table->begun[table->begun_next] = *upload;
    table->begun_next = (table->begun_next + 1) % BEGUN_MAX;
    (void)pthread_mutex_unlock(&table->lock);
}

bool upload_table_touch(struct upload_table *table, const struct live_upload *live)
{
    (void)pthread_mutex_lock(&table->lock);
    struct slot *slot = find_reservation(table, live->ticket);
    const bool goes_on = !slot->is_ended;
    slot->used_ms = clock_monotonic_ms();
    (void)pthread_mutex_unlock(&table->lock);
    return goes_on;
}

void upload_table_end(struct upload_table *table, const struct uuid *upload)
{
    OWNED(blob_writer) *evicted = NULL;

    (void)pthread_mutex_lock(&table->lock);
    struct slot *slot = find(table, upload);
    if (slot != NULL && slot->is_busy) slot->is_ended = slot->is_overtaken = true;
    /* NOLINTNEXTLINE(clang-analyzer-deadcode.DeadStores): freed on leaving */
    else if (slot != NULL) evicted = evict(table, slot);
    (void)pthread_mutex_unlock(&table->lock);
}

void upload_table_age(struct upload_table *table, int64_t used_ms)
{
    (void)pthread_mutex_lock(&table->lock);
    for (unsigned i = 0; i < table->limits.writers_max; i++) table->slots[i].used_ms = used_ms;
    (void)pthread_mutex_unlock(&table->lock);
}

void upload_table_give(struct upload_table *table, struct live_upload *live)
{
    OWNED(blob_writer) *evicted = NULL;

    (void)pthread_mutex_lock(&table->lock);
    struct slot *slot = find_reservation(table, live->ticket);
    if (live->writer == NULL || slot->is_overtaken || table->limits.idle_max == 0) {
        evicted = GIVE(live->writer); /* NOLINT(clang-analyzer-deadcode.DeadStores): freed on leaving */
        *slot = (struct slot){0};
    } else {
        /* NOLINTNEXTLINE(clang-analyzer-deadcode.DeadStores): freed on leaving */
        if (table->idle_count == table->limits.idle_max) evicted = evict(table, find_oldest_idle(table));
        slot->live = *live;
        slot->live.is_begun = false;
        slot->is_busy = false;
        slot->used_ms = clock_monotonic_ms();
        table->idle_count++;
        live->writer = NULL;
    }
    (void)pthread_mutex_unlock(&table->lock);
}

void upload_table_expire(struct upload_table *table, int64_t before_ms)
{
    struct blob_writer *writer = NULL;

    do {
        (void)pthread_mutex_lock(&table->lock);
        struct slot *slot = find_oldest_idle(table);
        writer = slot != NULL && slot->used_ms < before_ms ? evict(table, slot) : NULL;
        (void)pthread_mutex_unlock(&table->lock);
        blob_writer_free(writer);
    } while (writer != NULL);
}

void upload_table_clear(struct upload_table *table)
{
    (void)pthread_mutex_lock(&table->lock);
    memset(table->begun, 0, sizeof table->begun);
    (void)pthread_mutex_unlock(&table->lock);
    upload_table_expire(table, INT64_MAX);
}

void upload_table_free(struct upload_table *table)
{
    if (table == NULL) return;
    if (table->slots != NULL) upload_table_clear(table);
    (void)pthread_mutex_destroy(&table->lock);
    free(table->slots);
    free(table);
}
