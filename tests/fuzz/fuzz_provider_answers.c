/*
 * What an issuer sends to `sijil login`: whatever it says, no address is kept that is not https or steers a terminal, no text that a person sees does
 * either, and no token has a letter that breaks a header. The first byte picks the parser.
 */
#include <assert.h>
#include <string.h>

#include "base/json.h"
#include "base/terminal_text.h"
#include "client/provider/callback.h"
#include "client/provider/device.h"

#define ISSUER "https://id.example"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_url(const char *url, size_t room)
{
    assert(strlen(url) < room);
    assert(url[0] == '\0' ||
           (strncmp(url, "https://", 8) == 0 && terminal_is_printable(url) && strpbrk(url, " \r\n\"#") == NULL));
}

static void try_metadata(struct bytes text)
{
    struct provider_metadata metadata;
    struct error err = {0};

    if (!metadata_parse(text, ISSUER, &metadata, &err).ok) return;
    assert(metadata.token[0] != '\0');
    check_url(metadata.token, sizeof metadata.token);
    check_url(metadata.authorization, sizeof metadata.authorization);
    check_url(metadata.device, sizeof metadata.device);
    check_url(metadata.revocation, sizeof metadata.revocation);
}

static void try_tokens(const json_t *answer)
{
    struct provider_tokens tokens;
    struct error err = {0};

    (void)provider_id_token_is_of(json_object_get(answer, "id_token"), "n");
    if (!provider_tokens_take(answer, 1000, &tokens, &err).ok) return;
    assert(tokens.access[0] != '\0' && strpbrk(tokens.access, " \r\n\t") == NULL && terminal_is_printable(tokens.access));
    assert(terminal_is_printable(tokens.refresh) && tokens.expires_ms >= 1000);
}

static void try_offer(const json_t *answer)
{
    struct device_offer offer;
    struct error err = {0};

    if (!device_offer_take(answer, &offer, &err).ok) return;
    check_url(offer.prompt.page, sizeof offer.prompt.page);
    check_url(offer.prompt.page_with, sizeof offer.prompt.page_with);
    assert(offer.prompt.code[0] != '\0' && terminal_is_printable(offer.prompt.code));
    assert(offer.interval_s >= 1 && offer.interval_s <= 60 && offer.lifetime_s >= 1 && offer.lifetime_s <= 3600);
}

static void try_callback(struct bytes head)
{
    struct callback callback;

    if (!callback_parse(head, &callback)) return;
    assert(callback.state[0] != '\0' && strlen(callback.state) <= CALLBACK_STATE);
    assert((callback.code[0] == '\0') != (callback.error[0] == '\0'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct bytes text = {size == 0 ? data : data + 1, size == 0 ? 0 : size - 1};
    struct error ignored = {0};
    OWNED_JSON answer = NULL;

    if (size == 0) return 0;
    if (data[0] == 'm') try_metadata(text);
    else if (data[0] == 'c') try_callback(text);
    else if (json_read_any_number(text, PROVIDER_ANSWER_MAX, &answer, &ignored).ok)
        (data[0] == 't' ? try_tokens : try_offer)(answer);
    return 0;
}
