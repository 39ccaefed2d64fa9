#include "keyd/rate.h"

#include <pthread.h>

#include "base/memory.h"
#include "base/share.h"
#include "crypto/hmac.h"
#include "crypto/random.h"

enum { SETS = 512, WAYS = 8 /* 4,096 buckets */ };

/*
 * The amount that a key has taken lately shows whether it asks without end. Its bucket does not show this: if many keys ask
 * without end, each gets less than its rate, and its bucket fills again. So the amount shrinks at only an eighth of the rate.
 */
#define FORGETTING 8

struct bucket {
    struct uuid key;
    int64_t left;    /* in thousandths of one */
    int64_t used;    /* taken lately; shrinks at a part of the rate; in thousandths of one, divided by FORGETTING */
    int64_t seen_ms; /* the time of both values; 0: not in use */
};

struct rate {
    pthread_mutex_t lock;
    struct rate_limit limit;
    uint8_t secret[TABLE_KEY_SIZE]; /* so nobody can choose keys whose buckets displace another's */
    struct bucket buckets[SETS][WAYS];
};

struct result rate_new(const struct rate_limit *limit, struct rate **rate_out, struct error *err)
{
    struct rate *rate = memory_zeroed(1, sizeof *rate);

    if (rate == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the rate limit");
    (void)pthread_mutex_init(&rate->lock, NULL);
    rate->limit = *limit;
    random_bytes(rate->secret, sizeof rate->secret);
    *rate_out = rate;
    return SUCCESS;
}

static void refill(const struct rate_limit *limit, struct bucket *bucket, int64_t now_ms)
{
    const int64_t full = (int64_t)limit->burst * 1000;

    /* Threads may arrive slightly out of order; elapsed time is never counted twice. */
    if (bucket->seen_ms != 0 && now_ms <= bucket->seen_ms) return;
    /* After this time any bucket is full, and the product below can't overflow. */
    if (bucket->seen_ms == 0 || now_ms - bucket->seen_ms > full / limit->per_s) bucket->left = full;
    else bucket->left += (now_ms - bucket->seen_ms) * limit->per_s;
    if (bucket->left > full) bucket->left = full;
    if (now_ms - bucket->seen_ms > bucket->used / limit->per_s) bucket->used = 0;
    else bucket->used -= (now_ms - bucket->seen_ms) * limit->per_s;
    bucket->seen_ms = now_ms;
}

/* The key's bucket, or a full one, which may be reused. */
static struct bucket *find(const struct rate_limit *limit, struct bucket set[WAYS], const struct uuid *key, int64_t now_ms)
{
    struct bucket *free_one = NULL;

    for (size_t i = 0; i < WAYS; i++) {
        struct bucket *each = &set[i];
        const bool in_use = each->seen_ms != 0;
        if (in_use) refill(limit, each, now_ms);
        if (in_use && uuid_equal(&each->key, key)) return each;
        if (!in_use || each->left == (int64_t)limit->burst * 1000) free_one = each;
    }
    if (free_one == NULL) return NULL;
    *free_one = (struct bucket){.key = *key};
    refill(limit, free_one, now_ms);
    return free_one;
}

static struct bucket *set_of(struct rate *rate, const struct uuid *key)
{
    return rate->buckets[table_hash(rate->secret, uuid_bytes(key)) % SETS];
}

static int64_t all_of(const struct rate *rate)
{
    return (int64_t)rate->limit.burst * 1000;
}

static void take(const struct rate *rate, struct bucket *bucket)
{
    const int64_t used = bucket->used + INT64_C(1000) * FORGETTING, most = all_of(rate) * FORGETTING;

    bucket->left -= 1000;
    bucket->used = used < most ? used : most;
}

struct rate_use rate_use_of(struct rate *rate, const struct uuid *key, int64_t now_ms)
{
    (void)pthread_mutex_lock(&rate->lock);
    const struct bucket *bucket = find(&rate->limit, set_of(rate, key), key, now_ms);
    const int64_t taken = bucket == NULL ? all_of(rate) : bucket->used / FORGETTING;
    (void)pthread_mutex_unlock(&rate->lock);
    return (struct rate_use){taken, all_of(rate)};
}

struct result rate_take_shared(struct rate *rate, const struct uuid *key, int64_t now_ms, const struct rate_use *own,
                               struct error *err)
{
    (void)pthread_mutex_lock(&rate->lock);
    struct bucket *bucket = find(&rate->limit, set_of(rate, key), key, now_ms);
    const bool is_left = bucket != NULL && bucket->left >= 1000;
    const bool allowed = is_left && own->taken < share_limit(all_of(rate), all_of(rate) - bucket->left, own->all / 4);
    if (allowed) take(rate, bucket);
    (void)pthread_mutex_unlock(&rate->lock);
    if (allowed) return SUCCESS;
    return failure(err, ERROR_LIMIT, "%s more than %d times a second%s", rate->limit.what, rate->limit.per_s,
                   is_left ? ", and the rest is for those that asked for little" : "");
}

struct result rate_take(struct rate *rate, const struct uuid *key, int64_t now_ms, struct error *err)
{
    return rate_take_shared(rate, key, now_ms, &(struct rate_use){0}, err);
}

static void give_back(struct bucket *bucket)
{
    bucket->left += 1000;
    bucket->used -= INT64_C(1000) * FORGETTING;
    if (bucket->used < 0) bucket->used = 0;
}

void rate_return(struct rate *rate, const struct uuid *key, int64_t now_ms)
{
    (void)pthread_mutex_lock(&rate->lock);
    struct bucket *bucket = find(&rate->limit, set_of(rate, key), key, now_ms);
    if (bucket != NULL && bucket->left < all_of(rate)) give_back(bucket);
    (void)pthread_mutex_unlock(&rate->lock);
}

void rate_free(struct rate *rate)
{
    if (rate == NULL) return;
    (void)pthread_mutex_destroy(&rate->lock);
    free(rate);
}
