#include "authz/dpop.h"

#include <string.h>
#include <strings.h>

#include "authz/claims.h"
#include "base/json.h"
#include "base/text.h"

/* ---- What it is for ---- */

/* Of "https://host:443/path?query" the host and the path; false for another scheme. Without a path it is "/" (RFC 3986, 6.2.3). */
static bool split_url(const char *url, struct bytes *host_out, struct bytes *path_out)
{
    static const char scheme[] = "https://", standard[] = ":443";
    const size_t before = sizeof scheme - 1, port = sizeof standard - 1;

    if (strncasecmp(url, scheme, before) != 0) return false;
    struct bytes host = {(const uint8_t *)url + before, strcspn(url + before, "/?#")};
    const char *path = url + before + host.length;
    *path_out = path[0] == '/' ? (struct bytes){(const uint8_t *)path, strcspn(path, "?#")} : bytes_of_text("/");
    if (host.length > port && memcmp(host.data + host.length - port, standard, port) == 0) host.length -= port;
    *host_out = host;
    return true;
}

/* RFC 9449, 4.3: query and fragment are ignored. */
static bool is_url(const char *said, const struct dpop_rule *rule)
{
    struct bytes host = {0}, path = {0}, wanted = {0}, ignored = {0};

    return split_url(said, &host, &path) && split_url(rule->url, &wanted, &ignored) && host.length == wanted.length &&
           strncasecmp((const char *)host.data, (const char *)wanted.data, host.length) == 0 && bytes_equal(path, rule->path);
}

static struct result check_request(const json_t *payload, const struct dpop_rule *rule, struct error *err)
{
    const char *method = json_text_of(payload, "htm"), *url = json_text_of(payload, "htu");
    int64_t issued_s = 0;

    if (method == NULL || strcmp(method, rule->method) != 0)
        return failure(err, ERROR_INVALID, "the proof's htm is not %.16s, the method of the request", rule->method);
    if (url == NULL || !is_url(url, rule))
        return failure(err, ERROR_INVALID, "the proof's htu is not the URL of the request on %.120s, without query", rule->url);
    if (!claims_time(payload, "iat", &issued_s))
        return failure(err, ERROR_INVALID, "the proof's iat is missing or no number of seconds since 1970");
    const int64_t age_s = rule->now_ms / 1000 - issued_s;
    if (age_s > DPOP_WINDOW_S || age_s < -DPOP_WINDOW_S)
        return failure(err, ERROR_INVALID, "the proof was made %lld s %s by the registry's clock; at most %d are accepted",
                       (long long)(age_s < 0 ? -age_s : age_s), age_s < 0 ? "ahead" : "ago", DPOP_WINDOW_S);
    return SUCCESS;
}

/* Texts that may be missing. */
static struct result read_text(const json_t *payload, const char *claim, const char **text_out, struct error *err)
{
    const json_t *member = json_object_get(payload, claim);

    *text_out = json_string_value(member);
    if (member == NULL || *text_out != NULL) return SUCCESS;
    return failure(err, ERROR_INVALID, "the proof's %s is no text", claim);
}

static struct result take_digest(const char *type, const char *id, struct dpop_proof *proof, struct error *err)
{
    struct buffer OWNED_BUFFER named = BUFFER(DPOP_KEY_SIZE + DPOP_ID_MAX + 32);

    if (!claims_text_is_plain(id, DPOP_ID_MAX))
        return failure(err, ERROR_INVALID, "the proof's jti is missing, or no plain text of at most %d bytes", DPOP_ID_MAX);
    TRY(buffer_format(&named, err, "%s\n%s\n%s", type == NULL ? "dpop" : type, proof->key, id));
    sha256_of(buffer_bytes(&named), proof->digest);
    return SUCCESS;
}

struct result dpop_read_claims(const json_t *payload, const struct dpop_rule *rule, struct dpop_proof *proof, struct error *err)
{
    const char *token = NULL, *nonce = NULL;

    TRY(check_request(payload, rule, err));
    TRY(read_text(payload, "ath", &token, err));
    if (token != NULL && (strlen(token) != DPOP_TOKEN_LETTER || !text_copy(proof->token, sizeof proof->token, token)))
        return failure(err, ERROR_INVALID, "the proof's ath is no SHA-256 in base64url");
    TRY(read_text(payload, "nonce", &nonce, err));
    proof->is_fresh = dpop_nonces_accept(rule->nonces, rule->now_ms, nonce);
    return take_digest(rule->type, json_text_of(payload, "jti"), proof, err);
}

struct result dpop_read_typed(const char *text, const char *type, const struct dpop_rule *rule, struct dpop_proof *proof_out,
                              json_t **payload_out, struct error *err)
{
    OWNED_KEY_PROOF opened = {.claims = NULL};
    struct dpop_proof proof = {.is_fresh = false};
    struct dpop_rule typed = *rule;

    typed.type = type;
    TRY(key_proof_read(text, type == NULL ? "dpop+jwt" : type, &opened, err));
    (void)text_copy(proof.key, sizeof proof.key, opened.key);
    TRY(dpop_read_claims(opened.claims, &typed, &proof, err));
    *proof_out = proof;
    *payload_out = json_incref(opened.claims);
    return SUCCESS;
}

struct result dpop_read(const char *text, const struct dpop_rule *rule, struct dpop_proof *proof_out, struct error *err)
{
    OWNED_JSON payload = NULL;

    return dpop_read_typed(text, NULL, rule, proof_out, &payload, err);
}

bool dpop_is_for(const struct dpop_proof *proof, const uint8_t token_sha256[SHA256_SIZE])
{
    uint8_t said[SHA256_SIZE];

    return text_from_base64_exactly(BASE64_URL, bytes_of_text(proof->token), said, sizeof said) &&
           memcmp(said, token_sha256, sizeof said) == 0;
}
