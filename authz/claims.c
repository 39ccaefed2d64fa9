#include "authz/claims.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"

#define THUMBPRINT_LETTERS 43 /* SHA-256 in base64url */

/* One text, or an array of just that text. */
static bool is_audience(const json_t *member, const char *audience)
{
    if (json_is_array(member) && json_array_size(member) == 1) member = json_array_get(member, 0);
    const char *text = json_string_value(member);
    return text != NULL && strcmp(text, audience) == 0;
}

#define TIME_END (INT64_C(1) << 40) /* in the year 36812, so that no sum below overflows */

/* RFC 7519, 2: a NumericDate may have a fraction. It is cut off. */
bool claims_time(const json_t *payload, const char *claim, int64_t *seconds_out)
{
    const json_t *member = json_object_get(payload, claim);
    const double seconds = json_number_value(member); /* exact in this range; 0 if it is no number */

    if (!json_is_number(member) || !(seconds >= 0 && seconds < (double)TIME_END)) return false;
    *seconds_out = (int64_t)seconds;
    return true;
}

/* The times that a token names, in seconds. */
struct times {
    int64_t expires, issued, not_before;
};

static struct result read_times(const json_t *payload, struct times *times, struct error *err)
{
    if (!claims_time(payload, "exp", &times->expires))
        return failure(err, ERROR_DENIED, "the token's exp is missing or no number of seconds since 1970");
    if (!claims_time(payload, "iat", &times->issued))
        return failure(err, ERROR_DENIED, "the token's iat is missing or no number of seconds since 1970");
    if (json_object_get(payload, "nbf") != NULL && !claims_time(payload, "nbf", &times->not_before))
        return failure(err, ERROR_DENIED, "the token's nbf is no number of seconds since 1970");
    return SUCCESS;
}

static struct result check_times(const struct times *times, int64_t now, unsigned grace_s, struct error *err)
{
    if (times->issued > now + CLAIMS_SKEW_S) return failure(err, ERROR_DENIED, "the token was issued in the future");
    if (times->not_before > now + CLAIMS_SKEW_S) return failure(err, ERROR_DENIED, "the token is not valid yet");
    if (now >= times->expires + grace_s) return failure(err, ERROR_DENIED, "the token has expired; get a new one");
    return SUCCESS;
}

struct result claims_check_times(const json_t *payload, int64_t now_s, unsigned grace_s, struct error *err)
{
    struct times times = {.not_before = 0};

    TRY(read_times(payload, &times, err));
    return check_times(&times, now_s, grace_s, err);
}

static struct result check_lifetime(const json_t *payload, const struct claims_rule *rule, struct claims *claims,
                                    struct error *err)
{
    struct times times = {.not_before = 0};

    TRY(read_times(payload, &times, err));
    const int64_t lifetime = times.expires - times.issued;
    if (lifetime <= 0 || lifetime > rule->lifetime_max_s)
        return failure(err, ERROR_DENIED, "a token that lives %lld seconds; at most %u are accepted", (long long)lifetime,
                       rule->lifetime_max_s);
    TRY(check_times(&times, rule->now_ms / 1000, rule->grace_s, err));
    claims->issued_s = times.issued;
    claims->expires_s = times.expires;
    return SUCCESS;
}

bool claims_text_is_plain(const char *text, size_t maximum)
{
    if (text == NULL || text[0] == '\0' || strlen(text) > maximum) return false;
    for (const char *at = text; *at != '\0'; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f) return false;
    return true;
}

/* One member of cnf. NULL, if it is not there. */
static struct result read_thumbprint(const json_t *confirmation, const char *member, const char *presented, const char **said_out,
                                     struct error *err)
{
    const char *said = json_text_of(confirmation, member);

    *said_out = said;
    if (json_object_get(confirmation, member) == NULL) return SUCCESS;
    if (said == NULL || strlen(said) != THUMBPRINT_LETTERS)
        return failure(err, ERROR_DENIED, "the token's cnf has a %s that is no SHA-256 in base64url", member);
    if (presented != NULL && strcmp(said, presented) == 0) return SUCCESS;
    return failure(err, ERROR_DENIED, "the token is bound to a client %s",
                   strcmp(member, "jkt") == 0 ? "key, and no proof of this key came with it"
                                              : "certificate that was not presented");
}

/* RFC 8705, 3.1 and RFC 9449, 6.1. A confirmation that we don't know must not be treated as none. */
static struct result check_confirmation(const json_t *payload, const struct claims_rule *rule, struct claims *claims,
                                        struct error *err)
{
    const json_t *member = json_object_get(payload, "cnf");

    if (member == NULL) return SUCCESS;
    TRY(read_thumbprint(member, "x5t#S256", rule->thumbprint, &claims->confirmation, err));
    TRY(read_thumbprint(member, "jkt", rule->key, &claims->key, err));
    const size_t known = (claims->confirmation != NULL ? 1U : 0U) + (claims->key != NULL ? 1U : 0U);
    if (json_is_object(member) && known > 0 && json_object_size(member) == known) return SUCCESS;
    return failure(err, ERROR_DENIED, "the token is bound to a key in a way that is not known here");
}

bool claims_are_of_login(const json_t *payload)
{
    static const char *const marks[] = {"nonce", "at_hash", "c_hash", "s_hash"};

    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
        if (json_object_get(payload, marks[i]) != NULL) return true;
    return false;
}

/* RFC 9068, 2.2.1. What is malformed counts as missing: it can only be demanded. */
static void read_login(const json_t *payload, struct claims *claims)
{
    const char *acr = json_text_of(payload, "acr");

    const char *client = json_text_of(payload, "client_id"); /* RFC 9068, 2.2; azp of others */

    if (client == NULL) client = json_text_of(payload, "azp");
    claims->client = claims_text_is_plain(client, PRINCIPAL_CLIENT_SIZE - 1) ? client : NULL;
    claims->acr = claims_text_is_plain(acr, PRINCIPAL_ACR_SIZE - 1) ? acr : NULL;
    if (!claims_time(payload, "auth_time", &claims->auth_time_s)) claims->auth_time_s = 0;
}

void claims_fill(const struct claims *claims, struct principal *principal)
{
    /* Not the key: an upload that one program began goes on with another one's. */
    const char *bound = claims->confirmation;

    principal->expires_ms = claims->expires_s * 1000;
    principal->is_key_bound = claims->key != NULL;
    principal->lifetime_s = (unsigned)(claims->expires_s - claims->issued_s);
    principal->auth_time_s = claims->auth_time_s;
    (void)snprintf(principal->client, sizeof principal->client, "%s", claims->client == NULL ? "" : claims->client);
    (void)snprintf(principal->acr, sizeof principal->acr, "%s", claims->acr == NULL ? "" : claims->acr);
    (void)snprintf(principal->confirmation, sizeof principal->confirmation, "%s", bound == NULL ? "" : bound);
}

struct result claims_check(const json_t *payload, const struct claims_rule *rule, struct claims *claims_out, struct error *err)
{
    struct claims claims = {
        .issuer = json_text_of(payload, "iss"), .subject = json_text_of(payload, "sub"), .id = json_text_of(payload, "jti")};

    if (claims.issuer == NULL) return failure(err, ERROR_DENIED, "the token names no issuer");
    if (!is_audience(json_object_get(payload, "aud"), rule->audience))
        return failure(err, ERROR_DENIED, "the token's aud must be %.120s, and nothing else", rule->audience);
    if (json_object_get(payload, "act") != NULL) /* RFC 8693, 4.1: who acts is somebody else, of whom nothing is decided here */
        return failure(err, ERROR_DENIED,
                       "the token says that somebody acts for its subject (act): come with a token of your own");
    TRY(check_lifetime(payload, rule, &claims, err));
    if (!claims_text_is_plain(claims.subject, rule->subject_max))
        return failure(err, ERROR_DENIED, "the token's sub is missing, longer than %zu bytes, or no plain text",
                       rule->subject_max);
    if (json_object_get(payload, "jti") != NULL && !claims_text_is_plain(claims.id, 255))
        return failure(err, ERROR_DENIED, "the token's jti is no plain text of at most 255 bytes");
    if (rule->needs_id && claims.id == NULL) return failure(err, ERROR_DENIED, "the token has no jti");
    TRY(check_confirmation(payload, rule, &claims, err));
    read_login(payload, &claims);
    *claims_out = claims;
    return SUCCESS;
}

static bool read_actions(const json_t *actions, struct principal_access *access)
{
    const json_t *action;
    size_t i;

    if (!json_is_array(actions)) return false;
    json_array_foreach (actions, i, action) {
        const char *text = json_string_value(action);
        if (text == NULL) return false;
        if (strcmp(text, "pull") == 0) access->pull = true;
        else if (strcmp(text, "push") == 0) access->push = true;
        else if (strcmp(text, "delete") == 0) access->remove = true;
        else return false;
    }
    return true;
}

static bool read_access(const json_t *entry, struct principal_access *access)
{
    const char *type = json_text_of(entry, "type"), *name = json_text_of(entry, "name");
    const json_t *id = json_object_get(entry, "id");

    if (type == NULL || strcmp(type, "repository") != 0) return false;
    if (name == NULL || name[0] == '\0' || strlen(name) >= sizeof access->name) return false;
    if (id != NULL && (!json_is_string(id) || !uuid_parse(bytes_of_text(json_string_value(id)), &access->repository)))
        return false;
    (void)snprintf(access->name, sizeof access->name, "%s", name);
    return read_actions(json_object_get(entry, "actions"), access);
}

static bool read_flag(const json_t *payload, const char *claim, bool *flag)
{
    const json_t *member = json_object_get(payload, claim);

    *flag = json_is_true(member);
    return member == NULL || json_is_boolean(member);
}

struct result claims_read_rights(const json_t *payload, struct principal *principal, struct error *err)
{
    const json_t *access = json_object_get(payload, "access");
    const char *source = json_text_of(payload, "src");
    const json_t *entry;
    size_t i;

    if (!claims_text_is_plain(source, sizeof principal->source - 1) || (access != NULL && !json_is_array(access)) ||
        json_array_size(access) > PRINCIPAL_ACCESS_MAX || !read_flag(payload, "catalog", &principal->catalog) ||
        !read_flag(payload, "admin", &principal->administration))
        return failure(err, ERROR_DENIED, "the token's rights are malformed");
    (void)snprintf(principal->source, sizeof principal->source, "%s", source);
    principal->is_limited = true;
    principal->access_count = 0;
    json_array_foreach (access, i, entry) {
        struct principal_access *granted = &principal->access[principal->access_count];
        memset(granted, 0, sizeof *granted);
        if (!read_access(entry, granted)) return failure(err, ERROR_DENIED, "the token's rights are malformed");
        principal->access_count++;
    }
    return SUCCESS;
}
