/* `sijil ci test-rule`: explains claim by claim whether a token would match a rule. Offline; the signature is not checked. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "client/commands/api_priv.h"
#include "client/commands/ci_priv.h"
#include "client/commands/commands_priv.h"
#include "client/local.h"

#define TOKEN_MAX 16384 /* as the registry takes them */

/* What is said of one claim. */
struct line {
    const char *claim, *test, *verdict;
    const json_t *wanted, *found;
};
struct lines {
    json_t *all;
    bool matches;
    bool is_json;
};

static struct result read_text(const char *path, struct buffer *text, struct error *err)
{
    uint8_t piece[4096];
    size_t taken = 0;

    if (strcmp(path, "-") != 0) return local(file_read(path, text, err), path, err);
    while ((taken = fread(piece, 1, sizeof piece, stdin)) > 0) TRY(buffer_add(text, piece, taken, err));
    return SUCCESS;
}

static struct bytes without_line_end(struct bytes text)
{
    while (text.length > 0 && strchr(" \t\r\n", text.data[text.length - 1]) != NULL) text.length--;
    return text;
}

/* A JWT, or its claims as JSON. */
static struct result read_claims(const char *path, json_t **claims_out, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(TOKEN_MAX), decoded = BUFFER(TOKEN_MAX);
    OWNED_JSON claims = NULL;

    TRY(read_text(path, &text, err));
    struct bytes rest = without_line_end(buffer_bytes(&text));
    if (rest.length > 0 && rest.data[0] != '{') {
        (void)text_cut(&rest, '.');
        const struct bytes payload = text_cut(&rest, '.');
        if (!text_from_base64(&decoded, BASE64_URL, payload, err).ok || payload.length == 0)
            return failure(err, ERROR_INVALID, "TOKEN is neither a JWT nor a JSON object of claims");
        rest = buffer_bytes(&decoded);
    }
    TRY(json_read_any_number(rest, TOKEN_MAX, &claims, err));
    explicit_bzero(text.data, text.length);
    if (!json_is_object(claims)) return failure(err, ERROR_INVALID, "TOKEN is neither a JWT nor a JSON object of claims");
    *claims_out = GIVE(claims);
    return SUCCESS;
}

/* ---- what is said ---- */

/* 7 and "7" look alike. */
static const char *kind_of(const json_t *value)
{
    if (json_is_string(value)) return "a text";
    if (json_is_number(value)) return "a number";
    if (json_is_boolean(value)) return "true or false, without quotes";
    return json_is_array(value) ? "a list" : json_is_object(value) ? "an object" : "null";
}

static void print_line(const struct line *line)
{
    char claim[CELL_MAX], wanted[CELL_MAX], found[CELL_MAX];
    OWNED_JSON name = json_string(line->claim);

    cell_text(name, claim);
    cell_text(line->wanted, wanted);
    cell_text(line->found, found);
    (void)printf("%-9s %s", line->verdict, claim);
    if (strcmp(line->verdict, "matches") != 0)
        (void)printf("  wanted: %s %s, found: %s", line->test, wanted, line->found == NULL ? "nothing" : found);
    if (strcmp(line->verdict, "type") == 0) (void)printf(", which is %s", kind_of(line->found));
    (void)printf("\n");
}

static struct result say(struct lines *lines, const struct line *line, struct error *err)
{
    json_t *value = json_pack("{s:s, s:s, s:s, s:O*, s:O*}", "claim", line->claim, "verdict", line->verdict, "test", line->test,
                              "wanted", line->wanted, "found", line->found);

    if (strcmp(line->verdict, "matches") != 0) lines->matches = false;
    if (!lines->is_json) print_line(line);
    return json_array_append_new(lines->all, value) == 0 ? SUCCESS
                                                         : failure(err, ERROR_NO_MEMORY, "no memory for an explanation");
}

static const char *verdict_of(enum claim_answer answer)
{
    switch (answer) {
    case CLAIM_MATCHES: return "matches";
    case CLAIM_IS_ABSENT: return "absent";
    case CLAIM_IS_OF_ANOTHER_TYPE: return "type";
    case CLAIM_DIFFERS: break;
    }
    return "differs";
}

static struct result explain_conditions(const struct trust_rule *rule, const json_t *claims, struct lines *lines,
                                        struct error *err)
{
    for (size_t i = 0; i < rule->condition_count; i++) {
        const struct claim_condition *condition = &rule->conditions[i];
        const struct line line = {condition->pointer, claim_test_name(condition->test), verdict_of(claim_test(condition, claims)),
                                  condition->wanted, claim_find(claims, condition->pointer)};
        TRY(say(lines, &line, err));
    }
    return SUCCESS;
}

static struct result explain_text(const char *claim, const char *wanted, const json_t *found, bool matches, struct lines *lines,
                                  struct error *err)
{
    OWNED_JSON text = json_string(wanted);
    const struct line line = {claim, "eq", matches ? "matches" : found == NULL ? "absent" : "differs", text, found};

    return say(lines, &line, err);
}

/* The registry refuses it for these reasons, too. */
static struct result explain_life(const struct trust_rule *rule, const json_t *claims, struct lines *lines, struct error *err)
{
    const json_t *expires = json_object_get(claims, "exp"), *id = json_object_get(claims, "jti");
    const bool lives = json_is_number(expires) && json_number_value(expires) * 1000 > (double)clock_wall_ms();
    OWNED_JSON later = json_string("a time to come");
    OWNED_JSON some = json_string("a text");
    const struct line end = {"/exp", "is", lives ? "matches" : expires == NULL ? "absent" : "over", later, expires};
    const struct line use = {"/jti", "is", json_is_string(id) ? "matches" : "absent", some, id};

    TRY(say(lines, &end, err));
    return rule->single_use ? say(lines, &use, err) : SUCCESS;
}

static struct result explain(const struct trust_rule *rule, const json_t *claims, struct lines *lines, struct error *err)
{
    const json_t *issuer = json_object_get(claims, "iss"), *audience = json_object_get(claims, "aud");
    const bool is_issuer = json_is_string(issuer) && strcmp(json_string_value(issuer), rule->issuer) == 0;

    TRY(explain_text("/iss", rule->issuer, issuer, is_issuer, lines, err));
    TRY(explain_text("/aud", rule->audience, audience, claim_audience_is(claims, rule->audience), lines, err));
    TRY(explain_conditions(rule, claims, lines, err));
    return explain_life(rule, claims, lines, err);
}

static struct result conclude(const struct ci_rule *rule, const struct trust_rule *read, struct lines *lines, struct error *err)
{
    OWNED_JSON value = json_pack("{s:s, s:b, s:O, s:O?}", "rule", rule->id, "matches", lines->matches ? 1 : 0, "claims",
                                 lines->all, "grant", lines->matches ? json_object_get(rule->body, "grant") : NULL);

    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an explanation");
    if (lines->is_json) TRY(api_print_json(value, err));
    for (size_t i = 0; lines->matches && !lines->is_json && i < read->grant_count; i++)
        (void)printf("gives     %s on %s\n", read->grants[i].role, read->grants[i].on);
    if (lines->matches) return SUCCESS;
    return failure(err, ERROR_DENIED, "the rule %.63s does not match this token", rule->id);
}

struct result command_ci_test_rule(struct invocation *invocation, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(TRUST_RULE_BYTES_MAX);
    struct lines lines = {.matches = true, .is_json = invocation->json};
    OWNED_CI_RULE rule = {.id = NULL};
    OWNED(document) *document = NULL;
    OWNED_JSON claims = NULL;
    OWNED_JSON all = json_array();
    struct trust_rule read;

    if (all == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an explanation");
    lines.all = all;
    TRY(ci_rule_read(invocation, invocation->operands[0], &rule, err));
    TRY(ci_rule_compose(&rule, 1, &payload, err));
    TRY(document_read_payload(DOCUMENT_TRUST_RULE, buffer_bytes(&payload), &document, err));
    TRY(trust_rule_read(document, &read, err));
    TRY(read_claims(invocation->operands[1], &claims, err));
    TRY(explain(&read, claims, &lines, err));
    return conclude(&rule, &read, &lines, err);
}
