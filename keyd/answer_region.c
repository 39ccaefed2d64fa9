/* Requests to the sijil-keyd of a region, and what the main one says for these. */
#include "keyd/answer_priv.h"

#include "base/clock.h"
#include "keyd/certificate.h"

struct result answer_allowed(const struct keyd *keyd, const struct quorum_place *place, const struct keyd_request *request,
                             struct error *err)
{
    TRY(region_keyd_check(keyd->region, request, err));
    return quorum_check(place, request, err);
}

struct result answer_current(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                             struct scratch *scratch, struct error *err)
{
    (void)request;
    TRY(current_sign(keyd->keyring, keyd->ledger, clock_wall_ms(), &scratch->text, err));
    reply->as.envelope = buffer_bytes(&scratch->text);
    return SUCCESS;
}

struct result answer_place(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                           struct scratch *scratch, struct error *err)
{
    TRY(region_keyd_place(keyd->region, request->as.nonce, clock_wall_ms(), &scratch->text, err));
    ecdsa_key_public(keyring_document_key(keyd->keyring), reply->as.place.key);
    reply->as.place.envelope = buffer_bytes(&scratch->text);
    return SUCCESS;
}

struct result answer_take_current(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                                  struct scratch *scratch, struct error *err)
{
    (void)scratch;
    return region_keyd_take(keyd->region, request->as.current, clock_wall_ms(), &reply->as.pin, err);
}

/* A gateway may not know, or may not want to, that the key was with another sijil-keyd. */
struct result answer_certify_deletion(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                                      struct scratch *scratch, struct error *err)
{
    const struct signed_log log = {keyd->keyring, ledger_number(keyd->ledger)};

    if (keyd->regions != NULL) TRY(region_keyds_check(keyd->regions, keyd->ledger, request->as.deletion.scope.region, err));
    TRY(certificate_sign(&log, &request->as.deletion, clock_wall_ms(), &scratch->text, err));
    reply->as.envelope = buffer_bytes(&scratch->text);
    return SUCCESS;
}

struct result answer_show_set(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                              struct scratch *scratch, struct error *err)
{
    (void)reply, (void)scratch;
    return keyd->regions == NULL ? SUCCESS : region_keyds_show(keyd->regions, keyd->ledger, request->as.current, err);
}

struct result answer_certify_elsewhere(const struct keyd *keyd, const struct keyd_request *request, struct keyd_reply *reply,
                                       struct scratch *scratch, struct error *err)
{
    const struct signed_log log = {keyd->keyring, ledger_number(keyd->ledger)};
    char holder[ECDSA_THUMBPRINT_SIZE] = "";

    if (keyd->regions != NULL) region_keyds_name(keyd->regions, request->as.deletion.scope.region, holder);
    TRY(certificate_sign_elsewhere(&log, &request->as.deletion, holder, clock_wall_ms(), &scratch->text, err));
    reply->as.envelope = buffer_bytes(&scratch->text);
    return SUCCESS;
}
