#include "authz/introspection.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "crypto/digest.h"
#include "crypto/secret.h"

#define SETS 256
#define WAYS 4

struct entry {
    bool is_used;
    size_t issuer;
    uint8_t digest[SHA256_SIZE];
    enum introspection_state state;
    int64_t until_ms;
    json_t *claims; /* ACTIVE alone */
};

struct queue {
    struct introspection_question waiting[INTROSPECTION_QUEUE];
    size_t first, count;
};

struct introspection {
    size_t count;
    struct introspection_client clients[INTROSPECTION_ISSUERS_MAX];
    pthread_mutex_t lock;
    pthread_cond_t asked;
    struct queue *queues[INTROSPECTION_ISSUERS_MAX];
    struct entry table[SETS][WAYS];
};

static struct result fill(struct introspection *introspection, const struct introspection_client *clients, size_t count,
                          struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        introspection->clients[i] = clients[i];
        introspection->queues[i] = memory_zeroed(1, sizeof *introspection->queues[i]);
        if (introspection->queues[i] == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for introspection");
        introspection->count++;
    }
    return SUCCESS;
}

struct result introspection_new(const struct introspection_client *clients, size_t count,
                                struct introspection **introspection_out, struct error *err)
{
    OWNED(introspection) *introspection = memory_zeroed(1, sizeof *introspection);
    pthread_condattr_t monotonic;

    if (introspection == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for introspection");
    (void)pthread_mutex_init(&introspection->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&introspection->asked, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    TRY(fill(introspection, clients, count, err));
    *introspection_out = GIVE(introspection);
    return SUCCESS;
}

size_t introspection_count(const struct introspection *introspection)
{
    return introspection->count;
}

const struct introspection_client *introspection_client_at(const struct introspection *introspection, size_t number)
{
    return &introspection->clients[number];
}

/* ---- the table, with the lock ---- */

static void forget(struct entry *entry)
{
    json_decref(entry->claims);
    *entry = (struct entry){.is_used = false};
}

static struct entry *find(struct introspection *introspection, size_t issuer, const uint8_t digest[SHA256_SIZE])
{
    struct entry *set = introspection->table[digest[0]];

    for (size_t i = 0; i < WAYS; i++)
        if (set[i].is_used && set[i].issuer == issuer && memcmp(set[i].digest, digest, SHA256_SIZE) == 0) return &set[i];
    return NULL;
}

/* A place that is free, that counts no more, or whose answer ends first. NULL: all of the set wait for answers. */
static struct entry *make_place(struct introspection *introspection, const uint8_t digest[SHA256_SIZE], int64_t now_ms)
{
    struct entry *set = introspection->table[digest[0]], *place = NULL;

    for (size_t i = 0; i < WAYS; i++) {
        if (!set[i].is_used || set[i].until_ms <= now_ms) {
            forget(&set[i]);
            return &set[i];
        }
        if (set[i].state != INTROSPECTION_WAITS && (place == NULL || set[i].until_ms < place->until_ms)) place = &set[i];
    }
    if (place != NULL) forget(place);
    return place;
}

static enum introspection_state ask(struct introspection *introspection, size_t issuer, struct bytes token,
                                    const uint8_t digest[SHA256_SIZE], int64_t now_ms)
{
    struct queue *queue = introspection->queues[issuer];
    struct entry *entry = queue->count == INTROSPECTION_QUEUE ? NULL : make_place(introspection, digest, now_ms);

    if (entry == NULL) return INTROSPECTION_FAILED;
    *entry = (struct entry){
        .is_used = true, .issuer = issuer, .state = INTROSPECTION_WAITS, .until_ms = now_ms + INTROSPECTION_PATIENCE_MS};
    memcpy(entry->digest, digest, sizeof entry->digest);
    struct introspection_question *question = &queue->waiting[(queue->first + queue->count++) % INTROSPECTION_QUEUE];
    question->issuer = issuer;
    memcpy(question->digest, digest, sizeof question->digest);
    memcpy(question->token, token.data, token.length);
    question->token[token.length] = '\0';
    (void)pthread_cond_broadcast(&introspection->asked);
    return INTROSPECTION_WAITS;
}

static enum introspection_state look(struct introspection *introspection, size_t issuer, struct bytes token, int64_t now_ms,
                                     bool may_ask, json_t **claims_out)
{
    uint8_t digest[SHA256_SIZE];

    sha256_of(token, digest);
    struct entry *entry = find(introspection, issuer, digest);
    if (entry != NULL && entry->until_ms > now_ms) {
        if (entry->state == INTROSPECTION_ACTIVE) *claims_out = json_incref(entry->claims);
        return entry->state;
    }
    const bool was_in_vain = entry != NULL && entry->state == INTROSPECTION_WAITS;
    if (entry != NULL) forget(entry);
    if (was_in_vain) return INTROSPECTION_FAILED;
    return may_ask ? ask(introspection, issuer, token, digest, now_ms) : INTROSPECTION_UNKNOWN;
}

enum introspection_state introspection_look(struct introspection *introspection, size_t issuer, struct bytes token,
                                            int64_t now_ms, bool may_ask, json_t **claims_out)
{
    (void)pthread_mutex_lock(&introspection->lock);
    const enum introspection_state state = look(introspection, issuer, token, now_ms, may_ask, claims_out);
    (void)pthread_mutex_unlock(&introspection->lock);
    return state;
}

/* ---- questions ---- */

static struct timespec time_after(int64_t milliseconds)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += milliseconds / 1000;
    until.tv_nsec += milliseconds % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    return until;
}

bool introspection_take(struct introspection *introspection, size_t issuer, int64_t wait_ms,
                        struct introspection_question *question_out)
{
    const struct timespec until = time_after(wait_ms);
    struct queue *queue = introspection->queues[issuer];
    int waited = 0;

    (void)pthread_mutex_lock(&introspection->lock);
    while (queue->count == 0 && waited != ETIMEDOUT)
        waited = pthread_cond_timedwait(&introspection->asked, &introspection->lock, &until);
    const bool found = queue->count > 0;
    if (found) {
        struct introspection_question *question = &queue->waiting[queue->first];
        *question_out = *question;
        secret_wipe(question->token, sizeof question->token);
        queue->first = (queue->first + 1) % INTROSPECTION_QUEUE;
        queue->count--;
    }
    (void)pthread_mutex_unlock(&introspection->lock);
    return found;
}

void introspection_settle(struct introspection *introspection, struct introspection_question *question,
                          enum introspection_state state, json_t *claims, int64_t until_ms)
{
    secret_wipe(question->token, sizeof question->token);
    (void)pthread_mutex_lock(&introspection->lock);
    struct entry *entry = find(introspection, question->issuer, question->digest);
    if (entry != NULL && entry->state == INTROSPECTION_WAITS) { /* else nobody waits any more */
        entry->state = state;
        entry->until_ms = until_ms;
        entry->claims = state == INTROSPECTION_ACTIVE ? json_incref(claims) : NULL;
    }
    (void)pthread_mutex_unlock(&introspection->lock);
}

void introspection_free(struct introspection *introspection)
{
    if (introspection == NULL) return;
    for (size_t i = 0; i < SETS * WAYS; i++) forget(&introspection->table[i / WAYS][i % WAYS]);
    for (size_t i = 0; i < introspection->count; i++) {
        secret_wipe(introspection->queues[i], sizeof *introspection->queues[i]);
        free(introspection->queues[i]);
    }
    (void)pthread_cond_destroy(&introspection->asked);
    (void)pthread_mutex_destroy(&introspection->lock);
    secret_wipe(introspection->clients, sizeof introspection->clients);
    free(introspection);
}
