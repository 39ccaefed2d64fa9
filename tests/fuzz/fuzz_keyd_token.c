/*
 * A token for a request of a run: keyd names a subject only as the payload does, and only if the token is for this registry, in force, and may
 * administer. The first byte says which subject the gateway names; the rest is a payload, or a whole token.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "keyd/token_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct ecdsa_key *signer(void)
{
    static struct ecdsa_key *key;
    struct error err = {0};

    if (key == NULL && !ecdsa_key_new(&key, &err).ok) abort();
    return key;
}

static void check_holder(const json_t *payload, const struct token_use *use, const struct token_holder *holder)
{
    const char *subject = json_text_of(payload, "sub");
    int64_t expires_s = 0;

    assert(strcmp(json_text_of(payload, "iss"), "us") == 0 && strcmp(json_text_of(payload, "aud"), "here") == 0);
    assert(json_is_true(json_object_get(payload, "admin")));
    assert(json_integer_of(payload, "exp", &expires_s) && expires_s > use->now_s);
    assert(strncmp(holder->requester, "robot:", 6) == 0
               ? use->subject_issuer.length == 0 && strcmp(holder->requester, subject) == 0
               : strncmp(subject, "ext:", 4) == 0 && strlen(holder->requester) == 68);
    const bool is_person = use->subject_issuer.length > 8 && memcmp(use->subject_issuer.data, "https://", 8) == 0;
    assert(is_person ? strcmp(holder->subject, holder->requester) == 0 : strstr(subject, holder->subject) != NULL);
    assert(holder->issuer[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const issuers[] = {"", "sijil:rule", "https://id.example"};
    struct token_use use = {.issuer = bytes_of_text("us"), .audience = bytes_of_text("here"), .now_s = 1700000000};
    struct token_holder holder;
    OWNED_JSON payload = NULL;
    struct error err = {0};

    if (size == 0) return 0;
    const struct bytes rest = {data + 1, size - 1};
    use.subject_issuer = bytes_of_text(issuers[data[0] % 3]);
    const struct ecdsa_key *const keys[] = {signer()};
    assert(!token_check(keys, 1, rest, &use, &holder, &err).ok); /* nobody has its signature */
    if (!json_read(rest, 65536, &payload, &err).ok) return 0;
    if (token_check_claims(payload, &use, &holder, &err).ok) check_holder(payload, &use, &holder);
    else assert(err.kind == ERROR_DENIED && err.message[0] != '\0');
    return 0;
}
