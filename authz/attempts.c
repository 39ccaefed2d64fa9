#include "authz/attempts.h"

#include <netinet/in.h>
#include <pthread.h>
#include <string.h>

#include "base/memory.h"
#include "crypto/hmac.h"
#include "crypto/random.h"

#define SETS       1024
#define WAYS       8
#define ATTEMPT    INT64_C(60000) /* what one attempt weighs; a limit of n a minute takes n off in each millisecond */
#define MILLI_MAX  INT64_C(1000)

struct slot {
    uint64_t key;    /* 0: never used */
    unsigned limit;
    int64_t weight;  /* of the attempts that count still */
    int64_t seen_ms;
};

struct attempts {
    pthread_mutex_t mutex;
    struct attempts_limits limits;
    uint8_t secret[TABLE_KEY_SIZE]; /* so that nobody can choose names that collide */
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

/* An IPv4 address that came over IPv6 (::ffff:192.0.2.1) is one: else all of these were one network. */
static struct bytes network_of(const struct sockaddr *client)
{
    static const uint8_t unknown[] = "proxy";

    if (client != NULL && client->sa_family == AF_INET) {
        const struct in_addr *address = &((const struct sockaddr_in *)(const void *)client)->sin_addr;
        return (struct bytes){(const uint8_t *)address, sizeof *address};
    }
    if (client != NULL && client->sa_family == AF_INET6) {
        const struct in6_addr *address = &((const struct sockaddr_in6 *)(const void *)client)->sin6_addr;
        if (IN6_IS_ADDR_V4MAPPED(address)) return (struct bytes){address->s6_addr + 12, 4};
        return (struct bytes){address->s6_addr, 8};
    }
    return (struct bytes){unknown, sizeof unknown};
}

/* Of the network in all, and of the name from there. */
struct keys {
    uint64_t network, name;
};

static struct keys keys_of(const struct attempts *attempts, const struct attempts_who *who)
{
    struct keys keys = {.network = table_hash(attempts->secret, network_of(who->client)) | 1};
    const uint64_t both[2] = {keys.network, table_hash(attempts->secret, who->name)};

    keys.name = table_hash(attempts->secret, (struct bytes){(const uint8_t *)both, sizeof both}) | 1;
    return keys;
}

static void lighten(struct slot *slot, int64_t now_ms)
{
    const int64_t less = (now_ms - slot->seen_ms) * slot->limit;

    slot->weight = slot->weight > less ? slot->weight - less : 0;
    slot->seen_ms = now_ms;
}

/* In thousandths of what the slot's limit allows: which one it costs least to forget. */
static int64_t fullness(const struct slot *slot)
{
    return slot->key == 0 ? -1 : slot->weight * MILLI_MAX / (slot->limit * ATTEMPT);
}

static struct slot *find(struct attempts *attempts, uint64_t key, int64_t now_ms)
{
    struct slot *set = attempts->sets[key / 2 % SETS];

    for (size_t i = 0; i < WAYS; i++)
        if (set[i].key == key) {
            lighten(&set[i], now_ms);
            return &set[i];
        }
    return NULL;
}

static struct slot *find_or_make(struct attempts *attempts, uint64_t key, unsigned limit, int64_t now_ms)
{
    struct slot *set = attempts->sets[key / 2 % SETS], *place = &set[0];
    struct slot *found = find(attempts, key, now_ms);

    if (found != NULL) return found;
    for (size_t i = 0; i < WAYS; i++) {
        lighten(&set[i], now_ms);
        if (fullness(&set[i]) < fullness(place)) place = &set[i];
    }
    *place = (struct slot){.key = key, .limit = limit, .seen_ms = now_ms};
    return place;
}

/* Seconds until one more is allowed; 0 if it is now, and then it is counted. */
static unsigned take(struct attempts *attempts, uint64_t key, unsigned limit, int64_t now_ms)
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
    unsigned wait_s = take(attempts, keys.network, attempts->limits.per_network, now_ms);
    if (wait_s == 0) {
        wait_s = take(attempts, keys.name, attempts->limits.per_name, now_ms);
        if (wait_s != 0) give_back(attempts, keys.network, now_ms);
    }
    (void)pthread_mutex_unlock(&attempts->mutex);
    if (wait_s != 0) *wait_s_out = wait_s;
    return wait_s == 0;
}

void attempts_forgive(struct attempts *attempts, const struct attempts_who *who, int64_t now_ms)
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
