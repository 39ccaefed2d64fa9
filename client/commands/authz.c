/* `sijil authz explain`: why somebody may do something, or may not. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "client/address.h"
#include "client/commands/api_priv.h"
#include "client/commands/audit_priv.h"
#include "client/commands/commands_priv.h"

static struct result set(json_t *body, const char *member, const char *text, struct error *err)
{
    if (text == NULL || json_object_set_new(body, member, json_string(text)) == 0) return SUCCESS;
    return failure(err, ERROR_INVALID, "%s that is not UTF-8, or no memory", member);
}

/* "me", a robot's name, ORGANISATION/ROBOT, SCOPE:RULE, or with --issuer a subject. */
static struct result set_who(const struct invocation *invocation, json_t *body, struct error *err)
{
    const char *who = invocation->operands[1], *issuer = invocation_option(invocation, 'i');
    char robot[ROBOT_LOGIN_SIZE];

    if (issuer != NULL) {
        if (url_names_user(issuer)) TRY(address_check(issuer, err));
        TRY(set(body, "issuer", issuer, err));
        return set(body, "subject", who, err);
    }
    if (strcmp(who, "me") == 0) return SUCCESS;
    if (strchr(who, ':') != NULL) return set(body, "rule", who, err);
    robot_login_name(who, robot);
    return set(body, "robot", robot, err);
}

static struct result read_line(const struct invocation *invocation, json_t *body, struct error *err)
{
    struct buffer OWNED_BUFFER at = BUFFER(4096);

    TRY(set_who(invocation, body, err));
    TRY(set(body, "action", invocation->operands[2], err));
    TRY(set(body, "resource", invocation->operands[3], err));
    TRY(set(body, "address", invocation_option(invocation, 'a'), err));
    TRY(set(body, "runner", invocation_option(invocation, 'r'), err));
    TRY(set(body, "token_scope", invocation_option(invocation, 's'), err));
    TRY(set(body, "detail", invocation_option(invocation, 'd'), err));
    TRY(audit_time_of(invocation_option(invocation, 't'), &at, err));
    return at.length == 0 ? SUCCESS : set(body, "at", buffer_text(&at), err);
}

/* ---- for a person ---- */

static const char *cell(const json_t *object, const char *member, char cell_out[CELL_MAX])
{
    cell_text(json_object_get(object, member), cell_out);
    return cell_out;
}

static void show_head(const json_t *answer)
{
    static const char *const meanings[][2] = {{"allow", "allowed"},
                                              {"deny", "denied: 403, with the reasons"},
                                              {"hide", "denied: 404, as if it did not exist"},
                                              {"challenge", "denied: 401, with a challenge"}};
    const char *verdict = json_text_of(answer, "verdict");
    const json_t *who = json_object_get(answer, "who");
    char one[CELL_MAX], two[CELL_MAX];

    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++)
        if (verdict != NULL && strcmp(verdict, meanings[i][0]) == 0) (void)printf("%s\n", meanings[i][1]);
    (void)printf("%-10s %s (%s)\n", "who", cell(who, "name", one), cell(who, "principal", two));
    (void)printf("%-10s %s\n", "person", json_text_of(who, "person") == NULL ? "nobody" : cell(who, "person", one));
    const char *resource = json_text_of(answer, "resource");
    (void)printf("%-10s %s on %s\n", "what", cell(answer, "action", one),
                 resource == NULL || resource[0] == '\0' ? "the registry" : cell(answer, "resource", two));
    (void)printf("%-10s %s\n", "at", cell(answer, "at", one));
}

static void show_role(const json_t *role)
{
    const char *scope = json_text_of(role, "scope"), *origin = json_text_of(role, "origin");
    const bool is_bound = origin != NULL && strcmp(origin, "binding") == 0;
    char one[CELL_MAX], two[CELL_MAX];

    (void)printf("%-10s %s on %s", "role", cell(role, "role", one),
                 scope == NULL || scope[0] == '\0' ? "the registry" : cell(role, "scope", two));
    if (json_object_get(role, "role_version") != NULL) (void)printf(", version %s of the role", cell(role, "role_version", one));
    if (json_object_get(role, "expires") != NULL) (void)printf(" until %s", cell(role, "expires", one));
    if (json_object_get(role, "bound_as") != NULL)
        (void)printf(", bound as %s, without a document of officers", cell(role, "bound_as", one));
    else if (is_bound && json_object_get(role, "document") != NULL)
        (void)printf(", by the signed document %s", cell(role, "document", one));
    if (is_bound) (void)printf(", by binding %s of %s", cell(role, "binding", one), cell(role, "granted_by", two));
    else (void)printf(", by the %s %s", cell(role, "origin", one), cell(role, "document", two));
    if (json_is_true(json_object_get(role, "decides"))) (void)printf(": allows it");
    else if (!json_is_true(json_object_get(role, "permits"))) (void)printf(": does not permit it");
    (void)putchar('\n');
}

static void show_operation(const json_t *operation)
{
    const json_t *permit = json_object_get(operation, "permitted_by"), *denials = json_object_get(operation, "denials");
    const json_t *duties = json_object_get(operation, "obligations");
    char one[CELL_MAX], two[CELL_MAX], three[CELL_MAX];

    (void)printf("%-10s %s of %s for %s: ", "policy", cell(operation, "operation", one), cell(operation, "scope", two),
                 cell(operation, "target", three));
    if (json_is_true(json_object_get(operation, "allowed")))
        (void)printf("allowed, permitted by %s of %s\n", cell(permit, "rule", one), cell(permit, "policy", two));
    else (void)printf("denied\n");
    (void)printf("%-10s   label %s\n", "", cell(operation, "label", one));
    for (size_t i = 0; i < json_array_size(denials); i++) {
        const json_t *denial = json_array_get(denials, i);
        (void)printf("%-10s   denied by %s of %s\n", "", cell(denial, "rule", one), cell(denial, "policy", two));
    }
    if (json_object_size(duties) > 0) (void)printf("%-10s   duties %s\n", "", cell(operation, "obligations", one));
}

static void show_denial(const json_t *denial)
{
    char one[CELL_MAX], two[CELL_MAX];

    (void)printf("%-10s %s (%s)", "reason", cell(denial, "rule", one), cell(denial, "policy", two));
    (void)printf(": %s\n", cell(denial, "message", one));
    const char *missing = json_text_of(denial, "missing"), *failed = json_text_of(denial, "failed");
    if (missing != NULL && missing[0] != '\0') (void)printf("%-10s   not known: %s\n", "", cell(denial, "missing", one));
    if (failed != NULL && failed[0] != '\0') (void)printf("%-10s   against it: %s\n", "", cell(denial, "failed", one));
}

/* A name for a shell, which must not read its $ or '. */
static void print_quoted(const char *name)
{
    (void)putchar('\'');
    for (; *name != '\0'; name++) (void)printf("%s", *name == '\'' ? "'\\''" : (char[]){*name, '\0'});
    (void)putchar('\'');
}

/* The command that gives the role. The roles of trust rules and of groups are in signed documents instead. */
static void show_change(const struct invocation *invocation, const json_t *who, const json_t *change)
{
    const char *kind = json_text_of(change, "kind"), *of = json_text_of(who, "kind");
    const char *scope = json_text_of(change, "scope");
    char one[CELL_MAX], two[CELL_MAX];

    (void)printf("%-10s %s\n", "change", cell(change, "text", one));
    if (kind == NULL || of == NULL || strcmp(kind, "role") != 0 || strcmp(of, "rule") == 0) return;
    (void)printf("%-10s   sijil admin binding create %s ", "", invocation->operands[0]);
    print_quoted(cell(who, "name", one));
    (void)printf(" %s ", cell(change, "role", two));
    print_quoted(scope == NULL || scope[0] == '\0' ? "" : cell(change, "scope", two));
    if (strcmp(of, "external") == 0) (void)printf(" --issuer %s", cell(who, "issuer", one));
    (void)putchar('\n');
}

static void show(const struct invocation *invocation, const json_t *answer)
{
    const json_t *roles = json_object_get(answer, "roles"), *operations = json_object_get(answer, "operations");
    const json_t *denials = json_object_get(answer, "denials"), *changes = json_object_get(answer, "changes");
    const json_t *unknown = json_object_get(answer, "unknown"), *covers = json_object_get(answer, "token_covers");
    char text[CELL_MAX];

    show_head(answer);
    for (size_t i = 0; i < json_array_size(roles); i++) show_role(json_array_get(roles, i));
    if (json_array_size(roles) == 0) (void)printf("%-10s none here\n", "role");
    if (covers != NULL) (void)printf("%-10s %s\n", "token", json_is_true(covers) ? "covers it" : "does not cover it");
    for (size_t i = 0; i < json_array_size(operations); i++) show_operation(json_array_get(operations, i));
    for (size_t i = 0; i < json_array_size(denials); i++) show_denial(json_array_get(denials, i));
    for (size_t i = 0; i < json_array_size(changes); i++)
        show_change(invocation, json_object_get(answer, "who"), json_array_get(changes, i));
    for (size_t i = 0; i < json_array_size(unknown); i++) {
        cell_text(json_array_get(unknown, i), text);
        (void)printf("%-10s %s\n", "not known", text);
    }
}

struct result command_authz_explain(struct invocation *invocation, struct error *err)
{
    OWNED_JSON body = json_object();
    OWNED_JSON answer = NULL;

    if (body == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a request");
    TRY(line_check(invocation, read_line(invocation, body, err)));
    const struct result asked = api_call(invocation, "POST", "/authz/explain", body, &answer, err);
    if (!asked.ok && err->kind == ERROR_NOT_FOUND && json_object_get(body, "robot") != NULL)
        invocation_explain(invocation, "try", "--issuer URL, if WHO is a person: then it is the subject of the issuer's tokens");
    TRY(asked);
    if (invocation->json) return api_print_json(answer, err);
    show(invocation, answer);
    return SUCCESS;
}
