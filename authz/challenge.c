#include "authz/challenge.h"

/* RFC 9470, 3. */
static struct result write_step_up(const struct challenge *challenge, struct buffer *value, struct error *err)
{
    if (challenge->acr_values != NULL) TRY(buffer_format(value, err, ",acr_values=\"%s\"", challenge->acr_values));
    return buffer_format(value, err, ",max_age=\"%u\"", challenge->authentication->age_s);
}

struct result challenge_write(const struct challenge *challenge, struct buffer *value, struct error *err)
{
    const struct authentication *authentication = challenge->authentication;
    struct buffer OWNED_BUFFER text = BUFFER(CHALLENGE_MAX);

    TRY(buffer_format(value, err, "%s realm=\"%s/token\",service=\"%s\"", challenge->is_dpop ? "DPoP" : "Bearer", challenge->url,
                      challenge->service));
    if (challenge->is_dpop) TRY(buffer_add_text(value, ",algs=\"" DPOP_ALGORITHMS "\"", err));
    TRY(token_scope_write(challenge->scope, &text, err));
    if (text.length > 0) TRY(buffer_format(value, err, ",scope=\"%s\"", buffer_text(&text)));
    if (authentication->error == OAUTH_NONE) return SUCCESS;
    TRY(buffer_format(value, err, ",error=\"%s\"", oauth_error_name(authentication->error)));
    if (authentication->error == OAUTH_STEP_UP) TRY(write_step_up(challenge, value, err));
    if (authentication->description[0] == '\0') return SUCCESS;
    return buffer_format(value, err, ",error_description=\"%s\"", authentication->description);
}
