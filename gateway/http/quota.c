#include "gateway/http/quota.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/memory.h"
#include "crypto/hmac.h"
#include "crypto/random.h"

#define BURST_S 10 /* seconds' worth of requests that may arrive at once */
#define PROBES  16 /* slots that a key may use; if all are in use, it is refused */

struct slot {
    uint64_t key;   /* 0: never used */
    uint64_t realm; /* hashed as the key is */
    unsigned at_a_time;
    unsigned rate;
    int64_t held_bytes[QUOTA_HELD];
    int64_t tokens_milli; /* thousandths of a request that are still allowed */
    int64_t filled_ms;
};

struct quota {
    pthread_mutex_t mutex;
    uint8_t secret[TABLE_KEY_SIZE]; /* so that no client can choose names that collide */
    unsigned count;
    struct slot slots[];
};

struct result quota_new(unsigned keys, struct quota **quota_out, struct error *err)
{
    struct quota *quota = memory_zeroed(1, sizeof *quota + 2 * (size_t)keys * sizeof quota->slots[0]);

    if (quota == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to count requests");
    pthread_mutex_init(&quota->mutex, NULL);
    quota->count = 2 * keys;
    random_bytes(quota->secret, sizeof quota->secret);
    *quota_out = quota;
    return SUCCESS;
}

static struct result hash(const struct quota *quota, const char *kind, const char *key, uint64_t *hash_out, struct error *err)
{
    char text[1024]; /* an issuer's URL and a subject have under 600 */

    const int length = snprintf(text, sizeof text, "%s%c%s", kind, '\0', key);
    if (length < 0 || (size_t)length >= sizeof text) return failure(err, ERROR_LIMIT, "a %s of %d characters", kind, length);
    *hash_out = table_hash(quota->secret, (struct bytes){(const uint8_t *)text, (size_t)length}) | 1;
    return SUCCESS;
}

static void refill(struct slot *slot, int64_t now_ms)
{
    const int64_t most = (int64_t)slot->rate * BURST_S * 1000;
    const int64_t more = (now_ms - slot->filled_ms) * slot->rate;

    slot->tokens_milli = slot->tokens_milli + more > most ? most : slot->tokens_milli + more;
    slot->filled_ms = now_ms;
}

/* A slot that holds nothing that a fresh one would not hold. */
static bool is_idle(struct slot *slot, int64_t now_ms)
{
    if (slot->key == 0) return true;
    refill(slot, now_ms);
    return slot->at_a_time == 0 && slot->tokens_milli >= (int64_t)slot->rate * BURST_S * 1000;
}

static unsigned slots_of_realm(const struct quota *quota, uint64_t key, uint64_t realm)
{
    unsigned slots = 0;

    for (unsigned i = 0; i < PROBES; i++) slots += quota->slots[(key + i) % quota->count].realm == realm;
    return slots;
}

/* A slot without a request in progress, of the realm with the most slots. NULL: that is the realm of the key itself. */
static struct slot *find_of_largest_realm(struct quota *quota, uint64_t key, uint64_t realm)
{
    unsigned most = slots_of_realm(quota, key, realm);
    struct slot *found = NULL;

    for (unsigned i = 0; i < PROBES; i++) {
        struct slot *slot = &quota->slots[(key + i) % quota->count];
        const unsigned slots = slot->at_a_time > 0 ? 0 : slots_of_realm(quota, key, slot->realm);
        if (slots <= most) continue;
        most = slots;
        found = slot;
    }
    return found;
}

static struct slot *find(struct quota *quota, uint64_t key, uint64_t realm, const struct quota_limits *limits, int64_t now_ms)
{
    struct slot *idle = NULL;

    for (unsigned i = 0; i < PROBES; i++) {
        struct slot *slot = &quota->slots[(key + i) % quota->count];
        if (slot->key == key) return slot;
        if (idle == NULL && is_idle(slot, now_ms)) idle = slot;
    }
    if (idle == NULL) idle = find_of_largest_realm(quota, key, realm);
    if (idle == NULL) return NULL;
    *idle = (struct slot){.key = key, .realm = realm, .rate = limits->rate, .filled_ms = now_ms};
    idle->tokens_milli = (int64_t)limits->rate * BURST_S * 1000;
    return idle;
}

static struct result take(struct slot *slot, const char *kind, const struct quota_limits *limits, int64_t now_ms,
                          struct error *err)
{
    if (slot == NULL) return failure(err, ERROR_LIMIT, "too many clients at a time; try again in a moment");
    refill(slot, now_ms);
    if (slot->at_a_time >= limits->at_a_time)
        return failure(err, ERROR_LIMIT, "at most %u requests at a time from one %s", limits->at_a_time, kind);
    if (limits->rate != 0 && slot->tokens_milli < 1000)
        return failure(err, ERROR_LIMIT, "at most %u requests a second from one %s", limits->rate, kind);
    slot->tokens_milli -= limits->rate == 0 ? 0 : 1000;
    slot->at_a_time++;
    return SUCCESS;
}

struct result quota_enter(struct quota *quota, const char *kind, const char *key, const struct quota_limits *limits,
                          struct quota_ticket *ticket_out, struct error *err)
{
    const int64_t now_ms = clock_monotonic_ms();
    uint64_t hashed = 0, realm = 0;

    TRY(hash(quota, kind, key, &hashed, err));
    realm = hashed;
    if (limits->realm != NULL) TRY(hash(quota, "realm", limits->realm, &realm, err));
    pthread_mutex_lock(&quota->mutex);
    struct slot *slot = find(quota, hashed, realm, limits, now_ms);
    const struct result result = take(slot, kind, limits, now_ms, err);
    if (result.ok) ticket_out->slot = (unsigned)(slot - quota->slots) + 1;
    pthread_mutex_unlock(&quota->mutex);
    return result;
}

bool quota_hold(struct quota *quota, struct quota_ticket *ticket, unsigned kind, int64_t bytes, int64_t most)
{
    if (ticket->slot == 0) return true;
    struct slot *slot = &quota->slots[ticket->slot - 1];
    pthread_mutex_lock(&quota->mutex);
    slot->held_bytes[kind] += bytes;
    const bool is_within = slot->held_bytes[kind] <= most;
    pthread_mutex_unlock(&quota->mutex);
    ticket->held_bytes[kind] += bytes;
    return is_within;
}

uint64_t quota_number(const struct quota *quota, const char *kind, const char *key)
{
    uint64_t number = 0;
    struct error ignored = {0};

    return hash(quota, kind, key, &number, &ignored).ok ? number : 0;
}

void quota_leave(struct quota *quota, struct quota_ticket *ticket)
{
    if (ticket->slot == 0) return;
    struct slot *slot = &quota->slots[ticket->slot - 1];
    pthread_mutex_lock(&quota->mutex);
    for (size_t i = 0; i < QUOTA_HELD; i++) slot->held_bytes[i] -= ticket->held_bytes[i];
    slot->at_a_time--;
    pthread_mutex_unlock(&quota->mutex);
    *ticket = (struct quota_ticket){0};
}

void quota_free(struct quota *quota)
{
    if (quota == NULL) return;
    pthread_mutex_destroy(&quota->mutex);
    free(quota);
}
