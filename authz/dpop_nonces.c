#include "authz/dpop_nonces.h"

#include <pthread.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

/* The nonces of consecutive periods. */
struct known {
    int64_t first; /* the number of the first period */
    size_t count;  /* 0: none is known yet */
    char each[KEYD_NONCES_COUNT][DPOP_NONCE_SIZE];
};

struct dpop_nonces {
    pthread_rwlock_t *lock; /* apart, because readers have a constant view */
    struct known known;
};

struct result dpop_nonces_new(struct dpop_nonces **nonces_out, struct error *err)
{
    OWNED(dpop_nonces) *nonces = memory_zeroed(1, sizeof *nonces);

    if (nonces == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for nonces");
    nonces->lock = memory_zeroed(1, sizeof *nonces->lock);
    if (nonces->lock == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for nonces");
    (void)pthread_rwlock_init(nonces->lock, NULL);
    *nonces_out = GIVE(nonces);
    return SUCCESS;
}

struct result dpop_nonces_set(struct dpop_nonces *nonces, const struct keyd_nonces *known, struct error *err)
{
    struct known now = {.first = (int64_t)known->first, .count = KEYD_NONCES_COUNT};
    struct buffer OWNED_BUFFER text = BUFFER(DPOP_NONCE_SIZE);

    for (size_t i = 0; i < KEYD_NONCES_COUNT; i++) {
        buffer_clear(&text);
        TRY(text_base64(&text, BASE64_URL, (struct bytes){known->each[i], sizeof known->each[i]}, err));
        (void)text_copy(now.each[i], sizeof now.each[i], buffer_text(&text));
    }
    (void)pthread_rwlock_wrlock(nonces->lock);
    nonces->known = now;
    (void)pthread_rwlock_unlock(nonces->lock);
    return SUCCESS;
}

static struct known known_of(const struct dpop_nonces *nonces)
{
    (void)pthread_rwlock_rdlock(nonces->lock);
    const struct known known = nonces->known;
    (void)pthread_rwlock_unlock(nonces->lock);
    return known;
}

static const char *of_period(const struct known *known, int64_t period)
{
    const int64_t place = period - known->first;

    return place >= 0 && place < (int64_t)known->count ? known->each[place] : NULL;
}

bool dpop_nonces_newest(const struct dpop_nonces *nonces, int64_t now_ms, char nonce_out[DPOP_NONCE_SIZE])
{
    const struct known known = known_of(nonces);
    const char *newest = of_period(&known, now_ms / 1000 / KEYD_NONCE_PERIOD_S);

    return newest != NULL && text_copy(nonce_out, DPOP_NONCE_SIZE, newest);
}

/* The clock of the gateway that gave the nonce may be ahead, so that of the next period is accepted, too. */
bool dpop_nonces_accept(const struct dpop_nonces *nonces, int64_t now_ms, const char *nonce)
{
    const struct known known = known_of(nonces);
    const int64_t period = now_ms / 1000 / KEYD_NONCE_PERIOD_S;

    for (int64_t at = period - 1; nonce != NULL && at <= period + 1; at++) {
        const char *accepted = of_period(&known, at);
        if (accepted != NULL && strcmp(accepted, nonce) == 0) return true;
    }
    return false;
}

void dpop_nonces_free(struct dpop_nonces *nonces)
{
    if (nonces == NULL) return;
    if (nonces->lock != NULL) (void)pthread_rwlock_destroy(nonces->lock);
    free(nonces->lock);
    free(nonces);
}
