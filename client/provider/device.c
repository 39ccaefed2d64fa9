#include "client/provider/device.h"

#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"

#define GRANT           "urn:ietf:params:oauth:grant-type:device_code"
#define INTERVAL_S      5 /* section 3.2, when the issuer names none */
#define INTERVAL_MOST_S 60
#define LIFETIME_MOST_S 3600
#define SLOWER_S        5 /* section 3.5 */
#define FAILURES_MAX    5 /* calls without an answer, one after the other */

/* Letters that a person sees. */
static bool take_visible(const char *text, char *destination, size_t room)
{
    if (text == NULL || text[0] == '\0') return false;
    for (const char *letter = text; *letter != '\0'; letter++)
        if (*letter < ' ' || *letter > '~') return false;
    return text_copy(destination, room, text);
}

static struct result take_page(const json_t *answer, const char *key, char destination[PROVIDER_ENDPOINT_SIZE], struct error *err)
{
    const char *text = json_text_of(answer, key);

    if (text == NULL || !provider_url_is_good(text))
        return failure(err, ERROR_INVALID, "the issuer's %s is no https URL that can be shown", key);
    (void)text_copy(destination, PROVIDER_ENDPOINT_SIZE, text);
    return SUCCESS;
}

struct result device_offer_take(const json_t *answer, struct device_offer *offer_out, struct error *err)
{
    struct device_offer offer = {.lifetime_s = 0, .interval_s = INTERVAL_S};

    if (!take_visible(json_text_of(answer, "device_code"), offer.secret, sizeof offer.secret) ||
        !take_visible(json_text_of(answer, "user_code"), offer.prompt.code, sizeof offer.prompt.code))
        return failure(err, ERROR_INVALID, "the issuer answers without a code that can be shown");
    TRY(take_page(answer, "verification_uri", offer.prompt.page, err));
    if (json_object_get(answer, "verification_uri_complete") != NULL)
        TRY(take_page(answer, "verification_uri_complete", offer.prompt.page_with, err));
    if (!json_integer_of(answer, "expires_in", &offer.lifetime_s) || offer.lifetime_s <= 0)
        return failure(err, ERROR_INVALID, "the issuer does not say how long its code lives");
    (void)json_integer_of(answer, "interval", &offer.interval_s);
    if (offer.interval_s < 1 || offer.interval_s > INTERVAL_MOST_S) offer.interval_s = INTERVAL_S;
    if (offer.lifetime_s > LIFETIME_MOST_S) offer.lifetime_s = LIFETIME_MOST_S;
    *offer_out = offer;
    return SUCCESS;
}

static struct result ask(struct provider *issuer, struct device_offer *offer_out, struct error *err)
{
    const struct provider_options *options = provider_options(issuer);
    struct buffer OWNED_BUFFER form = BUFFER(PROVIDER_FORM_MAX);
    OWNED_ANSWER answer = {0};

    if (provider_metadata(issuer)->device[0] == '\0')
        return failure(err, ERROR_INVALID, "%.150s has no device authorization: log in with --browser", options->url);
    TRY(form_add(&form, "client_id", options->client_id, err));
    TRY(form_add(&form, "scope", options->scope, err));
    TRY(form_add(&form, "resource", options->resource, err));
    TRY(provider_post(issuer, provider_metadata(issuer)->device, &form, NULL, &answer, err));
    if (answer.status != 200) return provider_refused(&answer, "a code for this device", err);
    return device_offer_take(answer.object, offer_out, err);
}

/* False: the person has not decided yet. */
static struct result look(struct provider *issuer, struct device_offer *offer, struct provider_tokens *tokens_out, bool *done_out,
                          struct error *err)
{
    struct buffer OWNED_BUFFER form = BUFFER(PROVIDER_FORM_MAX);
    OWNED_ANSWER answer = {0};

    TRY(form_add(&form, "grant_type", GRANT, err));
    TRY(form_add(&form, "device_code", offer->secret, err));
    TRY(form_add(&form, "client_id", provider_options(issuer)->client_id, err));
    TRY(form_add(&form, "resource", provider_options(issuer)->resource, err));
    const int64_t now_ms = clock_wall_ms();
    const struct result posted = provider_post(issuer, provider_metadata(issuer)->token, &form, NULL, &answer, err);
    explicit_bzero(form.data, form.length);
    TRY(posted);
    *done_out = answer.status == 200;
    if (answer.status == 200) return provider_tokens_take(answer.object, now_ms, tokens_out, err);
    if (strcmp(answer.error, "slow_down") == 0) offer->interval_s += SLOWER_S;
    else if (strcmp(answer.error, "authorization_pending") != 0) return provider_refused(&answer, "the login", err);
    return SUCCESS;
}

static struct result poll_until(struct provider *issuer, struct device_offer *offer, struct provider_tokens *tokens_out,
                                struct error *err)
{
    const int64_t until_ms = clock_monotonic_ms() + offer->lifetime_s * 1000;
    unsigned failures = 0;
    bool done = false;

    while (clock_monotonic_ms() + offer->interval_s * 1000 < until_ms) {
        const struct timespec rest = {.tv_sec = (time_t)offer->interval_s};
        (void)nanosleep(&rest, NULL);
        const struct result looked = look(issuer, offer, tokens_out, &done, err);
        if (!looked.ok && (err->kind != ERROR_UNAVAILABLE || ++failures == FAILURES_MAX)) return looked;
        if (!looked.ok) {
            offer->interval_s += SLOWER_S; /* section 3.5: a connection that fails calls for a slower pace */
            continue;
        }
        if (done) return SUCCESS;
        failures = 0;
    }
    return failure(err, ERROR_DENIED, "the code has ended, and nobody has typed it: log in again");
}

struct result device_log_in(struct provider *issuer, void (*show)(void *context, const struct device_prompt *prompt),
                            void *context, struct provider_tokens *tokens_out, struct error *err)
{
    struct device_offer offer = {0};

    TRY(ask(issuer, &offer, err));
    show(context, &offer.prompt);
    const struct result polled = poll_until(issuer, &offer, tokens_out, err);
    explicit_bzero(&offer, sizeof offer);
    return polled;
}
