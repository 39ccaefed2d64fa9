#include "keyd/region.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "crypto/dsse.h"

#define MARK       "#region=" /* in the origin of the key ring, before the region */
#define AHEAD_MS   60000      /* clocks of two machines differ */
#define NAME_CHARS "abcdefghijklmnopqrstuvwxyz0123456789-"

struct region_keyd {
    const struct keyring *keyring;
    struct ledger *ledger;
    struct ecdsa_key *main_key;
    char origin[128], main_text[ECDSA_THUMBPRINT_SIZE], ring[KEYD_FACT_SIZE], geo[KEYD_FACT_SIZE], control[KEYD_FACT_SIZE];
    int64_t patience_ms;
    pthread_mutex_t lock;
    int64_t current_ms; /* under the lock: wall time of the newest statement; 0: none since the start */
    int64_t until_ms;   /* monotonic, so that a clock that is set back makes nothing younger */
};

static bool is_name(const char *text)
{
    const char *slash = strchr(text, '/');

    return slash != NULL && strlen(text) < sizeof((struct key_scope *)0)->region && slash != text && slash[1] != '\0' &&
           strspn(text, NAME_CHARS) == (size_t)(slash - text) && strspn(slash + 1, NAME_CHARS) == strlen(slash + 1);
}

struct result region_keyd_origin(const char *origin, const char *region, struct buffer *text, struct error *err)
{
    if (strstr(origin, MARK) != NULL) return failure(err, ERROR_INVALID, "an origin has no " MARK);
    if (region == NULL) return buffer_add_text(text, origin, err);
    if (!is_name(region)) return failure(err, ERROR_INVALID, "%.63s is no name of a region: provider/region", region);
    return buffer_format(text, err, "%s" MARK "%s", origin, region);
}

const char *region_keyd_of(const struct keyring *keyring)
{
    const char *mark = strstr(keyring_origin(keyring), MARK);

    return mark == NULL ? NULL : mark + strlen(MARK);
}

/* ---- the key of the main one ---- */

static struct result set_main_key(const void *context, struct ledger_state *state, struct error *err)
{
    (void)err;
    ecdsa_key_public(context, state->approver);
    state->pins[0] = (struct document_pin){.epoch = 0};
    return SUCCESS;
}

struct result region_keyd_trust(struct ledger *ledger, const struct ecdsa_key *main_key, struct error *err)
{
    return ledger_change(ledger, set_main_key, main_key, err);
}

static struct result take_fact(char into[KEYD_FACT_SIZE], const char *what, const char *text, struct error *err)
{
    return text_copy_setting(into, KEYD_FACT_SIZE, what, text == NULL ? "" : text, err);
}

static struct result fill(struct region_keyd *region, const struct region_keyd_options *options, struct error *err)
{
    const char *origin = keyring_origin(region->keyring);
    struct ledger_state state;

    (void)snprintf(region->origin, sizeof region->origin, "%.*s", (int)(strstr(origin, MARK) - origin), origin);
    TRY(take_fact(region->ring, "--key-ring", options->ring, err));
    TRY(take_fact(region->geo, "--key-geo", options->geo, err));
    TRY(take_fact(region->control, "--key-control", options->control, err));
    region->patience_ms = 1000 * (int64_t)(options->patience_s == 0 ? KEYD_CURRENT_S : options->patience_s);
    ledger_read(region->ledger, &state);
    if (!ledger_has_approver(&state))
        return failure(err, ERROR_DENIED, "this key ring of a region does not know the main sijil-keyd: give --main-key once");
    ecdsa_thumbprint(state.approver, region->main_text);
    return ecdsa_key_from_public(state.approver, &region->main_key, err);
}

struct result region_keyd_new(const struct keyring *keyring, struct ledger *ledger, const struct region_keyd_options *options,
                              struct region_keyd **region_out, struct error *err)
{
    const bool has_options =
        options->ring != NULL || options->geo != NULL || options->control != NULL || options->patience_s != 0;

    if (region_keyd_of(keyring) == NULL) {
        *region_out = NULL;
        return has_options ? failure(err, ERROR_INVALID,
                                     "this key ring is of no region: --key-ring, --key-geo, --key-control and "
                                     "--current-patience are for those of regions")
                           : SUCCESS;
    }
    OWNED(region_keyd) *region = memory_zeroed(1, sizeof *region);
    if (region == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a region");
    (void)pthread_mutex_init(&region->lock, NULL);
    region->keyring = keyring;
    region->ledger = ledger;
    TRY(fill(region, options, err));
    *region_out = GIVE(region);
    return SUCCESS;
}

void region_keyd_free(struct region_keyd *region)
{
    if (region == NULL) return;
    ecdsa_key_free(region->main_key);
    (void)pthread_mutex_destroy(&region->lock);
    free(region);
}

/* ---- what it refuses ---- */

static bool is_current(struct region_keyd *region, int64_t *current_ms_out)
{
    (void)pthread_mutex_lock(&region->lock);
    *current_ms_out = region->current_ms;
    const bool is_young = region->current_ms != 0 && clock_monotonic_ms() < region->until_ms;
    (void)pthread_mutex_unlock(&region->lock);
    return is_young;
}

static const struct key_scope *scope_of(const struct keyd_request *request)
{
    return request->type == KEYD_WRAP ? &request->as.wrap.binding.scope : &request->as.unwrap.binding.scope;
}

static struct result check_key(struct region_keyd *region, const struct keyd_request *request, struct error *err)
{
    const char *own = region_keyd_of(region->keyring), *asked = scope_of(request)->region;
    int64_t current_ms = 0;

    if (strcmp(own, asked) != 0)
        return failure(err, ERROR_DENIED, "this sijil-keyd has the keys of region %.63s, and none of %.63s", own, asked);
    if (is_current(region, &current_ms)) return SUCCESS;
    return failure(err, ERROR_UNAVAILABLE, KEYD_REGION_REFUSED "%.63s was not told within %lld s which policy set is in force",
                   own, (long long)(region->patience_ms / 1000));
}

struct result region_keyd_check(struct region_keyd *region, const struct keyd_request *request, struct error *err)
{
    const enum keyd_type type = request->type;
    const bool is_for_region = type == KEYD_PLACE || type == KEYD_TAKE_CURRENT;

    if (region == NULL)
        return is_for_region ? failure(err, ERROR_DENIED, "this sijil-keyd is the main one, and of no region") : SUCCESS;
    if (type == KEYD_WRAP || type == KEYD_UNWRAP || type == KEYD_REWRAP) return check_key(region, request, err);
    if (is_for_region || type == KEYD_VERSIONS_UNUSED) return SUCCESS;
    return failure(err, ERROR_DENIED,
                   "this sijil-keyd has the keys of region %.63s: it signs no log, no token, no document and no certificate, and "
                   "pins what the main one says",
                   region_keyd_of(region->keyring));
}

/* ---- statements ---- */

static struct result set_pin(const void *context, struct ledger_state *state, struct error *err)
{
    const struct keyd_current *current = context;
    struct document_pin *pin = &state->pins[0];

    if (current->epoch < pin->epoch)
        return failure(err, ERROR_DENIED, "policy set %llu is older than %llu, which was in force before",
                       (unsigned long long)current->epoch, (unsigned long long)pin->epoch);
    if (current->epoch == pin->epoch && memcmp(current->digest, pin->digest, sizeof pin->digest) != 0)
        return failure(err, ERROR_DENIED, "policy set %llu was another one before", (unsigned long long)current->epoch);
    pin->epoch = current->epoch;
    memcpy(pin->digest, current->digest, sizeof pin->digest);
    return SUCCESS;
}

/* What is known already needs no write to the disk. */
static struct result pin_set(struct region_keyd *region, const struct keyd_current *current, struct error *err)
{
    struct ledger_state state;

    ledger_read(region->ledger, &state);
    if (state.pins[0].epoch == current->epoch) return set_pin(current, &state, err);
    return ledger_change(region->ledger, set_pin, current, err);
}

static struct result check_statement(const struct region_keyd *region, struct bytes envelope, int64_t now_ms,
                                     struct keyd_current *current_out, struct error *err)
{
    OWNED(dsse) *dsse = NULL;
    struct keyd_current current;

    TRY(dsse_read(envelope, KEYD_ENVELOPE_MAX, &dsse, err));
    TRY(dsse_check_signer(dsse, region->main_key, err));
    if (strcmp(dsse->payload_type, KEYD_CURRENT_TYPE) != 0)
        return failure(err, ERROR_DENIED, "the main sijil-keyd has signed this, and it is no statement about the set in force");
    TRY(keyd_current_read(buffer_bytes(&dsse->payload), &current, err));
    if (strcmp(current.origin, region->origin) != 0)
        return failure(err, ERROR_DENIED, "the statement is of another registry, %.100s", current.origin);
    if (current.at_ms > now_ms + AHEAD_MS || now_ms - current.at_ms >= region->patience_ms)
        return failure(err, ERROR_DENIED, "the statement is %lld s old by this machine's clock",
                       (long long)((now_ms - current.at_ms) / 1000));
    *current_out = current;
    return SUCCESS;
}

struct result region_keyd_take(struct region_keyd *region, struct bytes envelope, int64_t now_ms, struct document_pin *pin_out,
                               struct error *err)
{
    struct keyd_current current = {.epoch = 0};

    TRY(check_statement(region, envelope, now_ms, &current, err));
    TRY(pin_set(region, &current, err));
    const int64_t age_ms = now_ms > current.at_ms ? now_ms - current.at_ms : 0;
    (void)pthread_mutex_lock(&region->lock);
    if (current.at_ms > region->current_ms) {
        region->current_ms = current.at_ms;
        region->until_ms = clock_monotonic_ms() + region->patience_ms - age_ms;
    }
    (void)pthread_mutex_unlock(&region->lock);
    *pin_out = (struct document_pin){.epoch = current.epoch};
    memcpy(pin_out->digest, current.digest, sizeof pin_out->digest);
    return SUCCESS;
}

static void describe(struct region_keyd *region, int64_t now_ms, struct keyd_place *place)
{
    struct ledger_state state;

    ledger_read(region->ledger, &state);
    (void)snprintf(place->region, sizeof place->region, "%s", region_keyd_of(region->keyring));
    memcpy(place->ring, region->ring, sizeof place->ring);
    memcpy(place->geo, region->geo, sizeof place->geo);
    memcpy(place->control, region->control, sizeof place->control);
    memcpy(place->origin, region->origin, sizeof place->origin);
    memcpy(place->main_key, region->main_text, sizeof place->main_key);
    place->epoch = state.pins[0].epoch;
    memcpy(place->digest, state.pins[0].digest, sizeof place->digest);
    place->is_current = is_current(region, &place->current_ms);
    place->at_ms = now_ms;
    place->key_version = keyring_version(region->keyring);
    place->unused_below = state.unused_below;
    place->unwraps = state.unwrap_count;
}

/* The count of unwraps that it states is durable. */
struct result region_keyd_place(struct region_keyd *region, const uint8_t nonce[32], int64_t now_ms, struct buffer *envelope,
                                struct error *err)
{
    const struct ecdsa_key *signer = keyring_document_key(region->keyring);
    struct buffer OWNED_BUFFER payload = BUFFER(KEYD_ENVELOPE_MAX);
    struct keyd_place place = {.epoch = 0};

    describe(region, now_ms, &place);
    memcpy(place.nonce, nonce, sizeof place.nonce);
    TRY(ledger_flush(region->ledger, err));
    TRY(keyd_place_write(&place, &payload, err));
    return dsse_write(KEYD_PLACE_TYPE, buffer_bytes(&payload), &signer, 1, envelope, err);
}

struct result current_sign(const struct keyring *keyring, struct ledger *ledger, int64_t now_ms, struct buffer *envelope,
                           struct error *err)
{
    const struct ecdsa_key *signer = keyring_document_key(keyring);
    struct buffer OWNED_BUFFER payload = BUFFER(KEYD_ENVELOPE_MAX);
    struct keyd_current current = {.at_ms = now_ms - now_ms % CURRENT_EVERY_MS};
    struct ledger_state state;

    ledger_read(ledger, &state);
    (void)snprintf(current.origin, sizeof current.origin, "%s", keyring_origin(keyring));
    current.epoch = state.pins[0].epoch;
    memcpy(current.digest, state.pins[0].digest, sizeof current.digest);
    TRY(keyd_current_write(&current, &payload, err));
    return dsse_write(KEYD_CURRENT_TYPE, buffer_bytes(&payload), &signer, 1, envelope, err);
}
