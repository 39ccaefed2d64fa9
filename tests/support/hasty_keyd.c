/*
 * sijil-keyd whose token keys follow each other every HASTY_CYCLE_S seconds, and not every 30 days, so that a test sees running servers change them (tests/scenario/
 * token_keys.py). The program is the one that ships; only the time by which the keys are chosen is another one. Half of each cycle stands for the time in which the key
 * before is still published.
 *
 * And its clock is a day ahead where documents are pinned, and where it says how long keys still wait: so a key waits, and no test waits for it.
 */
#include <time.h>

#include "keyd/document_pin.h"
#include "keyd/token_keys.h"

struct result __real_token_keys_new(const uint8_t secret[32], int64_t now_s, struct token_keys **keys_out, struct error *err);
struct result __wrap_token_keys_new(const uint8_t secret[32], int64_t now_s, struct token_keys **keys_out, struct error *err);
const struct ecdsa_key *__real_token_keys_at(const struct token_keys *keys, int64_t now_s);
const struct ecdsa_key *__wrap_token_keys_at(const struct token_keys *keys, int64_t now_s);
size_t __real_token_keys_published(const struct token_keys *keys, int64_t now_s,
                                   const struct ecdsa_key *published_out[KEYD_TOKEN_KEYS_MAX]);
size_t __wrap_token_keys_published(const struct token_keys *keys, int64_t now_s,
                                   const struct ecdsa_key *published_out[KEYD_TOKEN_KEYS_MAX]);

#define HASTY_CYCLE_S 12
#define HASTY_KEPT_S  (HASTY_CYCLE_S / 2)

/* Periods since the start of the process, which makes keys for 26 of them. */
static int64_t hasty(int64_t now_s)
{
    static int64_t began_s;

    if (began_s == 0) began_s = now_s;
    const int64_t passed_s = now_s - began_s, within_s = passed_s % HASTY_CYCLE_S;
    const int64_t begin_s = (began_s / TOKEN_KEY_PERIOD_S + passed_s / HASTY_CYCLE_S) * TOKEN_KEY_PERIOD_S;
    return begin_s + (within_s < HASTY_KEPT_S ? within_s : TOKEN_KEY_KEPT_S + within_s);
}

struct result __wrap_token_keys_new(const uint8_t secret[32], int64_t now_s, struct token_keys **keys_out, struct error *err)
{
    return __real_token_keys_new(secret, hasty(now_s), keys_out, err);
}

const struct ecdsa_key *__wrap_token_keys_at(const struct token_keys *keys, int64_t now_s)
{
    return __real_token_keys_at(keys, hasty(now_s));
}

size_t __wrap_token_keys_published(const struct token_keys *keys, int64_t now_s,
                                   const struct ecdsa_key *published_out[KEYD_TOKEN_KEYS_MAX])
{
    return __real_token_keys_published(keys, hasty(now_s), published_out);
}

/* ---- a day later ---- */

struct result __real_document_pin(const struct document_place *place, const struct document_pin_request *request, int64_t now_ms,
                                  struct document_pin *pin_out, struct error *err);
struct result __wrap_document_pin(const struct document_place *place, const struct document_pin_request *request, int64_t now_ms,
                                  struct document_pin *pin_out, struct error *err);
void __real_replacements_power(const struct replacement_place *place, const uint8_t principal[DOCUMENT_DIGEST_SIZE],
                               struct key_power *power_out);
void __wrap_replacements_power(const struct replacement_place *place, const uint8_t principal[DOCUMENT_DIGEST_SIZE],
                               struct key_power *power_out);

struct result __wrap_document_pin(const struct document_place *place, const struct document_pin_request *request, int64_t now_ms,
                                  struct document_pin *pin_out, struct error *err)
{
    return __real_document_pin(place, request, now_ms + REPLACEMENT_WAIT_MS, pin_out, err);
}

void __wrap_replacements_power(const struct replacement_place *place, const uint8_t principal[DOCUMENT_DIGEST_SIZE],
                               struct key_power *power_out)
{
    __real_replacements_power(place, principal, power_out);
    for (size_t i = 0; i < power_out->count; i++) power_out->waiting[i].counts_ms -= REPLACEMENT_WAIT_MS;
}
