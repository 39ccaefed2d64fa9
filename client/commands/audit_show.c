/* `sijil audit show`: all that is known of one event, for a person; and why an event was denied. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "audit/format/signed_act.h"
#include "base/json.h"
#include "base/text.h"
#include "client/commands/audit_priv.h"
#include "client/commands/commands_priv.h"

static void print_line(const char *title, const char *text)
{
    (void)printf("%-10s %s\n", title, text);
}

/* Nothing for a member that the event does not have. */
static void print_member(const char *title, const json_t *value)
{
    char cell[CELL_MAX];

    if (value == NULL || (json_is_string(value) && json_string_length(value) == 0)) return;
    cell_text(value, cell);
    print_line(title, cell);
}

void audit_print_denials(const json_t *event, const char *indent)
{
    const json_t *who = json_object_get(event, "who"), *denials = json_object_get(who, "denials");
    const json_t *rules = json_object_get(json_object_get(json_object_get(event, "entry"), "why"), "rules");

    if (json_is_true(json_object_get(who, "sealed")) && json_array_size(rules) > 0)
        (void)printf("%sthe reasons are sealed: --purpose opens them\n", indent);
    for (size_t i = 0; i < json_array_size(denials); i++) {
        const json_t *denial = json_array_get(denials, i);
        char rule[CELL_MAX], policy[CELL_MAX], message[CELL_MAX], missing[CELL_MAX];
        cell_text(json_object_get(denial, "rule"), rule);
        cell_text(json_object_get(denial, "policy"), policy);
        cell_text(json_object_get(denial, "message"), message);
        cell_text(json_object_get(denial, "missing"), missing);
        const bool is_missing = json_string_length(json_object_get(denial, "missing")) > 0;
        (void)printf("%s%s of %s: %s%s%s%s\n", indent, rule, policy, message, is_missing ? " (unknown: " : "",
                     is_missing ? missing : "", is_missing ? ")" : "");
    }
}

static void print_targets(const json_t *entry)
{
    const json_t *others = json_object_get(entry, "also");

    print_member("action", json_object_get(entry, "act"));
    print_member("resource", json_object_get(entry, "res"));
    print_member("region", json_object_get(entry, "rgn"));
    for (size_t i = 0; i < json_array_size(others); i++) print_member("also", json_array_get(others, i));
}

static void print_who(const json_t *event)
{
    static const char *const members[] = {"subject", "issuer",  "address", "agent",  "claims",
                                          "tried",   "purpose", "search",  "missing"};
    const json_t *who = json_object_get(event, "who");

    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) print_member(members[i], json_object_get(who, members[i]));
    if (json_is_true(json_object_get(who, "sealed"))) print_line("sealed", "who, and from where: --purpose opens that");
    if (json_is_true(json_object_get(who, "damaged")))
        print_line("damaged", "the sealed part is not the one that the event committed to");
    print_member("pseudonym", json_object_get(json_object_get(event, "entry"), "actor"));
}

/* The signature of the person that asked is checked here: the registry need not be believed. */
static void print_act(const json_t *event)
{
    const json_t *entry = json_object_get(event, "entry"), *who = json_object_get(event, "who");
    const char *note = json_text_of(json_object_get(entry, "why"), "note"), *text = json_text_of(who, SIGNED_ACT_MEMBER);
    OWNED_SIGNED_ACT act = {.proof = {.claims = NULL}};
    char key[KEY_PROOF_KEY_SIZE], method[CELL_MAX], target[CELL_MAX], body[CELL_MAX];
    struct error why = {0};

    if (note == NULL || !signed_act_key(note, key)) return;
    print_line("signed by", key);
    if (text == NULL) return;
    if (!signed_act_read(text, &act, &why).ok || strcmp(act.proof.key, key) != 0) {
        print_line("signature", "WRONG: it is not that of this key");
        return;
    }
    cell_text(json_object_get(act.proof.claims, "htm"), method);
    cell_text(json_object_get(act.proof.claims, "target"), target);
    cell_text(json_object_get(act.proof.claims, "body"), body);
    (void)printf("%-10s good, over %s %s; SHA-256 of the body: %s\n", "signature", method, target, body);
}

static void print_why(const json_t *event)
{
    const json_t *entry = json_object_get(event, "entry"), *why = json_object_get(entry, "why");

    print_member("rules", json_object_get(why, "rules"));
    audit_print_denials(event, "           ");
    print_member("note", json_object_get(why, "note"));
    print_act(event);
    print_member("count", json_object_get(why, "count"));
    print_member("decision", json_object_get(why, "id"));
    print_member("policies", json_object_get(why, "policy"));
    print_member("request", json_object_get(entry, "req"));
}

static struct result print_facts(const json_t *facts, size_t target, struct error *err)
{
    (void)printf("facts of target %zu: ", target + 1);
    if (!json_is_null(facts)) return api_print_json(facts, err);
    (void)printf("missing\n");
    return SUCCESS;
}

static struct result print_whole(const json_t *event, struct error *err)
{
    const json_t *facts = json_object_get(event, "facts"), *entry = json_object_get(event, "entry");
    char time_text[AUDIT_TIME_SIZE];

    print_member("event", json_object_get(event, "seq"));
    if (entry == NULL) {
        print_line("unreadable", "this version of the registry can't read the entry; audit proof fetches its bytes");
        return SUCCESS;
    }
    audit_time_text(number_of(entry, "ts"), time_text);
    print_line("time", time_text);
    print_member("outcome", json_object_get(entry, "out"));
    print_targets(entry);
    print_who(event);
    print_why(event);
    for (size_t i = 0; i < json_array_size(facts); i++) TRY(print_facts(json_array_get(facts, i), i, err));
    return SUCCESS;
}

/* Errors and headers name an event ORIGIN/4711. Its log may be another one than HOST's, so a person has to look. */
static struct result no_number(const char *given, struct error *err)
{
    const char *slash = strrchr(given, '/');
    uint64_t number = 0;

    if (slash != NULL && text_to_u64(bytes_of_text(slash + 1), INT64_MAX, &number))
        return failure(err, ERROR_INVALID, "'%.100s' is no sequence number: give %s, if HOST's log is %.*s", given, slash + 1,
                       (int)(slash - given), given);
    return failure(err, ERROR_INVALID, "'%.40s' is no sequence number", given);
}

struct result command_audit_show(struct invocation *invocation, struct error *err)
{
    OWNED(session) *session = NULL;
    OWNED_JSON event = NULL;
    struct buffer OWNED_BUFFER path = BUFFER(1024);
    const char *sequence = invocation->operands[1];
    uint64_t number = 0;

    if (!text_to_u64(bytes_of_text(sequence), INT64_MAX, &number)) return line_check(invocation, no_number(sequence, err));
    TRY(line_check(invocation, audit_check_form(invocation, err)));
    TRY(buffer_format(&path, err, "/audit/events/%s?facts=true", sequence));
    TRY(audit_add_purpose(invocation, '&', &path, err));
    TRY(audit_add_within(invocation, '&', &path, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(audit_advised(invocation, session, api_call_in(session, "GET", buffer_text(&path), NULL, &event, err), err));
    if (invocation->json) return api_print(invocation, event, err);
    if (invocation_option(invocation, 'C') == NULL) return print_whole(event, err);
    audit_print_csv_titles();
    audit_print_csv_event(event);
    return SUCCESS;
}
