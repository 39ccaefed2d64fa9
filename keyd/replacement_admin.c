#include "keyd/replacement_admin.h"

#include <string.h>

#include "base/text.h"
#include "crypto/digest.h"
#include "documents/format/officers.h"

static struct replacement_admin *find(struct replacement_state *state, const uint8_t name[DOCUMENT_DIGEST_SIZE])
{
    for (uint32_t i = 0; i < state->admin_count; i++)
        if (memcmp(state->admins[i].name, name, DOCUMENT_DIGEST_SIZE) == 0) return &state->admins[i];
    return NULL;
}

static bool is_held(const struct replacement_naming *naming, const uint8_t name[DOCUMENT_DIGEST_SIZE],
                    const uint8_t owner[DOCUMENT_DIGEST_SIZE])
{
    struct buffer OWNED_BUFFER text = BUFFER(ECDSA_THUMBPRINT_SIZE);
    struct error none = {0};

    if (!text_base64(&text, BASE64_URL, (struct bytes){name, DOCUMENT_DIGEST_SIZE}, &none).ok) return false;
    const struct key_register_holder holder = {buffer_text(&text), owner, naming->now_ms};
    return key_register_check_holder(naming->keys, &holder, &none).ok;
}

/* In force, with a key that was not withdrawn. A recovery takes documents out of the register of keys whose events are lost. */
static bool counts(const struct replacement_admin *admin, const struct replacement_naming *naming)
{
    return admin->end_ms > naming->now_ms && is_held(naming, admin->name, admin->name) &&
           is_held(naming, admin->key, admin->principal);
}

static struct result take_out(struct replacement_state *state, const struct replacement_naming *naming,
                              struct replacement_admin *admin, struct error *err)
{
    bool is_last = admin != NULL && counts(admin, naming) && !state->names_all;

    for (uint32_t i = 0; i < state->admin_count && is_last; i++)
        if (&state->admins[i] != admin && counts(&state->admins[i], naming)) is_last = false;
    if (is_last)
        return failure(
            err, ERROR_DENIED,
            "this withdraws the last document of an administrator: another one was withdrawn just before. Sign one for somebody else first");
    if (admin != NULL) *admin = state->admins[--state->admin_count];
    return SUCCESS;
}

static struct replacement_admin *make_room(struct replacement_state *state, int64_t now_ms)
{
    if (state->admin_count < REPLACEMENT_ADMINS_MAX) return &state->admins[state->admin_count++];
    for (uint32_t i = 0; i < state->admin_count; i++)
        if (state->admins[i].end_ms <= now_ms) return &state->admins[i];
    return NULL;
}

struct result replacement_note_admin(struct replacement_state *state, const struct replacement_naming *naming, struct error *err)
{
    struct replacement_admin wanted = {.end_ms = naming->document->expires_ms};
    struct officer officer;

    key_register_owner(naming->document, wanted.name);
    struct replacement_admin *admin = find(state, wanted.name);
    if (naming->document->is_withdrawn) return take_out(state, naming, admin, err);
    TRY(officer_read(naming->document, &officer, err)); /* its key is a thumbprint */
    (void)text_from_base64_exactly(BASE64_URL, bytes_of_text(officer.key), wanted.key, sizeof wanted.key);
    sha256_of(bytes_of_text(officer.principal), wanted.principal);
    if (admin == NULL) admin = make_room(state, naming->now_ms);
    if (admin == NULL)
        return failure(err, ERROR_LIMIT, "sijil-keyd keeps %d documents of administrators", REPLACEMENT_ADMINS_MAX);
    *admin = wanted;
    return SUCCESS;
}
