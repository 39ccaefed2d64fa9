#include "authz/attempts.h"

#include <pthread.h>
#include <string.h>

#include "base/memory.h"
#include "base/network.h"
#include "crypto/hmac.h"
#include "crypto/random.h"

#define SETS      1024
#define WAYS      8
#define ATTEMPT   INT64_C(60000) /* the weight of one attempt; a limit of n a minute subtracts n each millisecond */
#define MILLI_MAX INT64_C(1000)
#define IPV4_BITS 32
#define IPV6_BITS 64 /* a provider gives one customer a network of this prefix */

struct slot {
    uint64_t key; /* 0: never used */
    unsigned limit;
    int64_t weight; /* of recent attempts */
    int64_t seen_ms;
};

struct attempts {
    pthread_mutex_t mutex;
    struct attempts_limits limits;
    uint8_t secret[TABLE_KEY_SIZE]; /* a random key of the hash: clients can't choose names that collide */
    struct slot sets[SETS][WAYS];
};

struct result attempts_new(const struct attempts_limits *limits, struct attempts **attempts_out, struct error *err)
{
    struct attempts *attempts = memory_zeroed(1, sizeof *attempts);

    if (attempts == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to count wrong secrets");
    (void)pthread_mutex_init(&attempts->mutex, NULL);
    attempts->limits = *limits;
    random_bytes(attempts->secret, sizeof attempts->secret);
    *attempts_out = attempts;
    return SUCCESS;
}

/* All clients behind a proxy are one network. */
static uint64_t key_of_network(const struct attempts *attempts, const struct sockaddr *client)
{
    static const uint8_t unknown[] = "proxy";
    struct network network;

    if (!network_of_socket(client, &network)) return table_hash(attempts->secret, (struct bytes){unknown, sizeof unknown}) | 1;
    network_widen(&network, IPV4_BITS, IPV6_BITS);
    return table_hash(attempts->secret, (struct bytes){network.address, sizeof network.address}) | 1;
}

/* Keys of the network, and of the name within the network. */
struct keys {
    uint64_t network, name;
};

static struct keys keys_of(const struct attempts *attempts, const struct attempts_who *who)
{
    struct keys keys = {.network = key_of_network(attempts, who->client)};
    const uint64_t both[2] = {keys.network, table_hash(attempts->secret, who->name)};

    keys.name = table_hash(attempts->secret, (struct bytes){(const uint8_t *)both, sizeof both}) | 1;
    return keys;
}

static void decay(struct slot *slot, int64_t now_ms)
{
    const int64_t less = (now_ms - slot->seen_ms) * slot->limit;

    slot->weight = slot->weight > less ? slot->weight - less : 0;
    slot->seen_ms = now_ms;
}

/* The weight in thousandths of the slot's limit: the slot with the lowest is evicted. */
static int64_t load_of(const struct slot *slot)
{
    return slot->key == 0 ? -1 : slot->weight * MILLI_MAX / (slot->limit * ATTEMPT);
}

static struct slot *find(struct attempts *attempts, uint64_t key, int64_t now_ms)
{
    struct slot *set = attempts->sets[key / 2 % SETS];

    for (size_t i = 0; i < WAYS; i++)
        if (set[i].key == key) {
            decay(&set[i], now_ms);
            return &set[i];
        }
    return NULL;
}

static struct slot *find_or_make(struct attempts *attempts, uint64_t key, unsigned limit, int64_t now_ms)
{
    struct slot *set = attempts->sets[key / 2 % SETS], *entry = &set[0];
    struct slot *found = find(attempts, key, now_ms);

    if (found != NULL) return found;
    for (size_t i = 0; i < WAYS; i++) {
        decay(&set[i], now_ms);
        if (load_of(&set[i]) < load_of(entry)) entry = &set[i];
    }
    *entry = (struct slot){.key = key, .limit = limit, .seen_ms = now_ms};
    return entry;
}

/* Counts an attempt and returns 0 if the limit allows one now; else the seconds until it does. */
static unsigned count_attempt(struct attempts *attempts, uint64_t key, unsigned limit, int64_t now_ms)
{
    if (limit == 0) return 0;
    struct slot *slot = find_or_make(attempts, key, limit, now_ms);
    const int64_t over = slot->weight + ATTEMPT - limit * ATTEMPT, a_second = limit * INT64_C(1000);
    if (over > 0) return (unsigned)((over + a_second - 1) / a_second);
    slot->weight += ATTEMPT;
    return 0;
}

static void give_back(struct attempts *attempts, uint64_t key, int64_t now_ms)
{
    struct slot *slot = find(attempts, key, now_ms);

    if (slot != NULL) slot->weight = slot->weight > ATTEMPT ? slot->weight - ATTEMPT : 0;
}

bool attempts_begin(struct attempts *attempts, const struct attempts_who *who, int64_t now_ms, unsigned *wait_s_out)
{
    const struct keys keys = keys_of(attempts, who);

    (void)pthread_mutex_lock(&attempts->mutex);
    unsigned wait_s = count_attempt(attempts, keys.network, attempts->limits.per_network, now_ms);
    if (wait_s == 0) {
        wait_s = count_attempt(attempts, keys.name, attempts->limits.per_name, now_ms);
        if (wait_s != 0) give_back(attempts, keys.network, now_ms);
    }
    (void)pthread_mutex_unlock(&attempts->mutex);
    if (wait_s != 0) *wait_s_out = wait_s;
    return wait_s == 0;
}

void attempts_reset(struct attempts *attempts, const struct attempts_who *who, int64_t now_ms)
{
    const struct keys keys = keys_of(attempts, who);

    (void)pthread_mutex_lock(&attempts->mutex);
    give_back(attempts, keys.network, now_ms);
    give_back(attempts, keys.name, now_ms);
    (void)pthread_mutex_unlock(&attempts->mutex);
}

void attempts_free(struct attempts *attempts)
{
    if (attempts == NULL) return;
    (void)pthread_mutex_destroy(&attempts->mutex);
    free(attempts);
}
