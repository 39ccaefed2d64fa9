/* The file that says whom to ask, and the answers. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "authz/claims.h"
#include "authz/introspection.h"
#include "authz/robot.h"
#include "base/json.h"
#include "base/text.h"

static struct result copy_word(struct bytes word, char *out, size_t size, const char *what, size_t line, struct error *err)
{
    if (word.length == 0 || word.length >= size || !text_is_visible(word))
        return failure(err, ERROR_INVALID, "line %zu: %s is missing, or has more than %zu letters", line, what, size - 1);
    memcpy(out, word.data, word.length);
    out[word.length] = '\0';
    return SUCCESS;
}

static struct result read_line(struct bytes line, size_t number, struct introspection_client *client, struct error *err)
{
    TRY(copy_word(text_cut(&line, ' '), client->issuer, sizeof client->issuer, "the issuer's URL", number, err));
    TRY(copy_word(text_cut(&line, ' '), client->endpoint, sizeof client->endpoint, "the URL of its introspection", number, err));
    TRY(copy_word(text_cut(&line, ' '), client->client, sizeof client->client, "the id of the client", number, err));
    TRY(copy_word(line, client->secret, sizeof client->secret, "the client's secret", number, err));
    if (!issuer_url_is_valid(client->issuer)) return failure(err, ERROR_INVALID, "line %zu: " ISSUER_URL_RULE, number);
    if (!issuer_keys_url_is_valid(client->endpoint))
        return failure(err, ERROR_INVALID, "line %zu: the second word is an https URL without a fragment", number);
    return SUCCESS;
}

static struct result check_new(const struct introspection_client *clients, size_t count, size_t line, struct error *err)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(clients[i].issuer, clients[count].issuer) == 0)
            return failure(err, ERROR_INVALID, "line %zu: the issuer is there twice", line);
    return SUCCESS;
}

struct result introspection_clients_read(struct bytes text, struct introspection_client clients[INTROSPECTION_ISSUERS_MAX],
                                         size_t *count_out, struct error *err)
{
    size_t count = 0;

    for (size_t number = 1; text.length > 0; number++) {
        const struct bytes line = text_cut(&text, '\n');
        if (line.length == 0 || line.data[0] == '#') continue;
        if (count == INTROSPECTION_ISSUERS_MAX)
            return failure(err, ERROR_LIMIT, "more than %d issuers", INTROSPECTION_ISSUERS_MAX);
        TRY(read_line(line, number, &clients[count], err));
        TRY(check_new(clients, count, number, err));
        count++;
    }
    *count_out = count;
    return SUCCESS;
}

/* RFC 7662 has "Bearer" there; glewlwyd says what kind of token it is. Hydra has "Bearer" there for refresh tokens too, and says the kind in token_use. */
static bool is_access_token(const json_t *answer)
{
    const json_t *type = json_object_get(answer, "token_type"), *use = json_object_get(answer, "token_use");
    const char *text = json_string_value(type), *use_text = json_string_value(use);

    if (use != NULL && (use_text == NULL || (strcmp(use_text, "access_token") != 0 && strcmp(use_text, "access") != 0)))
        return false;
    return type == NULL || (text != NULL && (strcasecmp(text, "bearer") == 0 || strcmp(text, "access_token") == 0));
}

static struct result complete(json_t *answer, const char *issuer, struct error *err)
{
    const json_t *named = json_object_get(answer, "iss");

    if (named != NULL && (!json_is_string(named) || strcmp(json_string_value(named), issuer) != 0))
        return failure(err, ERROR_INVALID, "the answer is about a token of another issuer");
    if (named == NULL && json_object_set_new(answer, "iss", json_string(issuer)) != 0)
        return failure(err, ERROR_NO_MEMORY, "no memory for the claims of a token");
    return SUCCESS;
}

struct result introspection_answer_read(struct bytes text, const char *issuer, json_t **claims_out, struct error *err)
{
    OWNED_JSON answer = NULL;

    TRY(json_read_any_number(text, INTROSPECTION_ANSWER_MAX, &answer, err));
    const json_t *active = json_object_get(answer, "active");
    if (!json_is_boolean(active)) return failure(err, ERROR_INVALID, "the answer does not say whether the token is active");
    *claims_out = NULL;
    if (!json_is_true(active) || !is_access_token(answer)) return SUCCESS;
    TRY(complete(answer, issuer, err));
    *claims_out = GIVE(answer);
    return SUCCESS;
}

bool introspection_token_is_opaque(struct bytes token)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=";
    const size_t prefix = sizeof ROBOT_SECRET_PREFIX - 1;
    size_t dots = 0;

    if (token.length == 0 || token.length > INTROSPECTION_TOKEN_MAX || !text_consists_of(token, letters)) return false;
    if (token.length >= prefix && memcmp(token.data, ROBOT_SECRET_PREFIX, prefix) == 0) return false;
    for (size_t i = 0; i < token.length; i++) dots += token.data[i] == '.';
    return dots != 2;
}
