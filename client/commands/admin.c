/* `sijil admin ...`: organisations, projects, robots, bindings. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "client/address.h"
#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"
#include "client/local.h"
#include "crypto/certificate.h"
#include "policy/label.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define LABEL_MAX    4096
#define ROBOT_DAYS   90     /* as docs/api.md says */
#define GRACE_MAX    604800 /* seconds */
#define BINDING_DAYS 3650

/* The failure if the body could not be made from the operands. */
static struct result no_json(const char *what, struct error *err)
{
    if (json_lacks() > 0) return failure(err, ERROR_NO_MEMORY, "no memory for a request");
    return failure(err, ERROR_INVALID, "%s that is not UTF-8", what);
}

/* Sends `body` and prints the answer. */
static struct result create(struct invocation *invocation, const char *path, const json_t *body, struct error *err)
{
    OWNED_JSON answer = NULL;

    if (body == NULL) return no_json("a name", err);
    TRY(api_call(invocation, "POST", path, body, &answer, err));
    return api_print(invocation, answer, err);
}

static const char roles[] =
#define ROLE(constant, name, ...) name " "
#include "authz/roles.def"
#undef ROLE
    ;
static const char classes[] =
#define X(constant, name) name " "
    LABEL_CLASSES(X)
#undef X
    ;

/* Adds the allowed words below the registry's message about a wrong one. */
static struct result with_words(struct invocation *invocation, const char *what, const char *words, struct result result,
                                const struct error *err)
{
    const size_t length = strlen(words), end = length > 0 && words[length - 1] == ' ' ? length - 1 : length;
    size_t last = end;
    char first[32], final[32];

    while (last > 0 && words[last - 1] != ' ') last--;
    (void)snprintf(first, sizeof first, "%.*s", (int)strcspn(words, " "), words);
    (void)snprintf(final, sizeof final, "%.*s", (int)(end - last), words + last);
    const char *said[] = {err->message, invocation->report.explanation}; /* a long message is shown below the error */
    bool is_said = false;                                                /* then all of the words are */
    for (size_t i = 0; i < COUNT(said); i++)
        is_said = is_said || (strstr(said[i], first) != NULL && strstr(said[i], final) != NULL);
    if (!result.ok && err->kind == ERROR_INVALID && !is_said) invocation_explain(invocation, what, words);
    return result;
}

/* "acme/models" -> "acme", "models"; without a slash the first is empty. */
static struct result split_name(const char *text, char first[64], const char **rest_out, struct error *err)
{
    const char *slash = strchr(text, '/');
    const size_t length = slash == NULL ? 0 : (size_t)(slash - text);

    if (length >= 64) return failure(err, ERROR_INVALID, "the organisation's name is too long");
    memcpy(first, text, length);
    first[length] = '\0';
    *rest_out = slash == NULL ? text : slash + 1;
    return SUCCESS;
}

/* A missing member would change the request: a robot of all organisations, for example. */
static struct result set_text(json_t *body, const char *key, const char *text, struct error *err)
{
    if (body == NULL) return no_json("a name", err);
    if (json_object_set_new(body, key, json_string(text)) == 0) return SUCCESS;
    return no_json(key, err);
}

static struct result set_days(const struct invocation *invocation, uint64_t most, json_t *body, struct error *err)
{
    const char *text = invocation_option(invocation, 'e');
    uint64_t days = 0;

    if (text == NULL) return SUCCESS;
    if (!text_to_u64(bytes_of_text(text), most, &days) || days == 0)
        return failure(err, ERROR_INVALID, "--expires %.20s: a number of days from 1 to %llu", text, (unsigned long long)most);
    if (json_object_set_new(body, "expires_days", json_integer((json_int_t)days)) != 0)
        return failure(err, ERROR_NO_MEMORY, "no memory for a request");
    return SUCCESS;
}

struct result command_organisation_create(struct invocation *invocation, struct error *err)
{
    OWNED_JSON body = json_pack("{s:s}", "name", invocation->operands[1]);

    return create(invocation, "/organisations", body, err);
}

struct result command_organisation_list(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {{"ORGANISATION", "name"}, {"LABEL", "label"}};

    return api_list(invocation, "/organisations", "organisations", columns, COUNT(columns), err);
}

/* Where it may not be: nobody reads it there. */
static void print_misplaced(const json_t *misplaced)
{
    char name[CELL_MAX], rule[CELL_MAX], policy[CELL_MAX], operation[CELL_MAX], found[CELL_MAX];

    for (size_t i = 0; i < json_array_size(misplaced); i++) {
        const json_t *row = json_array_get(misplaced, i);
        cell_text(json_object_get(row, "repository"), name);
        cell_text(json_object_get(row, "rule"), rule);
        cell_text(json_object_get(row, "policy"), policy);
        cell_text(json_object_get(row, "operation"), operation);
        cell_text(json_object_get(row, "found"), found);
        (void)printf("  %s is closed since %s: %s of %s denies %s there\n", name, found, rule, policy, operation);
    }
}

struct result command_project_show(struct invocation *invocation, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(1024);
    OWNED_JSON answer = NULL;

    TRY(buffer_format(&path, err, "/projects/%s", invocation->operands[1]));
    TRY(api_call(invocation, "GET", buffer_text(&path), NULL, &answer, err));
    if (invocation->json) return api_print(invocation, answer, err);
    OWNED_JSON misplaced = json_incref(json_object_get(answer, "misplaced"));
    (void)json_object_del(answer, "misplaced");
    TRY(api_print(invocation, answer, err));
    print_misplaced(misplaced);
    return SUCCESS;
}

struct result command_project_create(struct invocation *invocation, struct error *err)
{
    char organisation[64] = "";
    const char *name = NULL, *region = invocation_option(invocation, 'r'), *label = invocation_option(invocation, 'l');

    TRY(line_check(invocation, split_name(invocation->operands[1], organisation, &name, err)));
    if (organisation[0] == '\0')
        return line_check(invocation, failure(err, ERROR_INVALID, "'%.80s': a project is ORGANISATION/PROJECT", name));
    OWNED_JSON body = json_pack("{s:s,s:s}", "organisation", organisation, "name", name);
    if (body == NULL) return no_json("a name", err);
    if (region != NULL) TRY(set_text(body, "region", region, err));
    if (label != NULL) {
        json_t *value = NULL;
        TRY(line_check(invocation, json_read(bytes_of_text(label), LABEL_MAX, &value, err)));
        if (json_object_set_new(body, "label", value) != 0) return failure(err, ERROR_NO_MEMORY, "no memory for a request");
    }
    const struct result created = create(invocation, "/projects", body, err);
    return label == NULL ? created : with_words(invocation, "classes", classes, created, err);
}

struct result command_project_label(struct invocation *invocation, struct error *err)
{
    OWNED_JSON label = NULL;
    OWNED_JSON answer = NULL;
    struct buffer OWNED_BUFFER path = BUFFER(1024);

    TRY(line_check(invocation, json_read(bytes_of_text(invocation->operands[2]), LABEL_MAX, &label, err)));
    TRY(buffer_format(&path, err, "/projects/%s/label", invocation->operands[1]));
    TRY(with_words(invocation, "classes", classes, api_call(invocation, "PUT", buffer_text(&path), label, &answer, err), err));
    return api_print(invocation, answer, err);
}

struct result command_project_list(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {{"PROJECT", "name"}, {"REGION", "region"}, {"LABEL", "label"}};

    return api_list(invocation, "/projects", "projects", columns, COUNT(columns), err);
}

struct result command_robot_create(struct invocation *invocation, struct error *err)
{
    char organisation[64] = "";
    const char *name = NULL;

    TRY(line_check(invocation, split_name(invocation->operands[1], organisation, &name, err)));
    OWNED_JSON body = json_pack("{s:s}", "name", name);
    if (organisation[0] != '\0') TRY(set_text(body, "organisation", organisation, err));
    if (body != NULL) TRY(line_check(invocation, set_days(invocation, ROBOT_DAYS, body, err)));
    return create(invocation, "/robots", body, err);
}

struct result command_robot_list(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {{"ID", "id"}, {"NAME", "name"}, {"ENABLED", "enabled"}, {"EXPIRES", "expires"}};

    return api_list(invocation, "/robots", "robots", columns, COUNT(columns), err);
}

/* "/robots?limit=1000&organisation=acme" for robot$acme+ci; robots of the registry have no organisation. */
static struct result robots_path(const char *robot, struct buffer *path, struct error *err)
{
    const char *name = robot + strlen("robot$"), *plus = strchr(name, '+');
    char organisation[64];

    TRY(buffer_add_text(path, "/robots?limit=1000", err));
    if (plus == NULL) return SUCCESS;
    (void)snprintf(organisation, sizeof organisation, "%.*s", (int)(plus - name), name);
    TRY(buffer_add_text(path, "&organisation=", err));
    return http_escape(path, organisation, err);
}

static bool take_robot_id(const json_t *page, const char *robot, char id_out[64])
{
    const json_t *robots = json_object_get(page, "robots");

    for (size_t i = 0; i < json_array_size(robots); i++) {
        const char *name = json_text_of(json_array_get(robots, i), "name");
        const char *id = json_text_of(json_array_get(robots, i), "id");
        if (name == NULL || id == NULL || strcmp(name, robot) != 0) continue;
        (void)snprintf(id_out, 64, "%s", id);
        return true;
    }
    return false;
}

/* Whether it has the form of the registry's ids: a UUID. */
static bool is_id(const char *text)
{
    return strlen(text) == 36 && strspn(text, "0123456789abcdef-") == 36;
}

void robot_login_name(const char *given, char name_out[ROBOT_LOGIN_SIZE])
{
    const char *slash = strchr(given, '/');

    if (strncmp(given, "robot$", strlen("robot$")) == 0) (void)snprintf(name_out, ROBOT_LOGIN_SIZE, "%s", given);
    else if (slash == NULL) (void)snprintf(name_out, ROBOT_LOGIN_SIZE, "robot$%s", given);
    else (void)snprintf(name_out, ROBOT_LOGIN_SIZE, "robot$%.*s+%s", (int)(slash - given), given, slash + 1);
}

struct search {
    char robot[ROBOT_LOGIN_SIZE];
    char *id_out; /* 64 bytes */
    bool is_found;
};

static struct result look(void *context, const json_t *page, bool *is_enough_out, struct error *err)
{
    struct search *search = context;

    (void)err;
    search->is_found = take_robot_id(page, search->robot, search->id_out);
    *is_enough_out = search->is_found;
    return SUCCESS;
}

/* A robot may be given by its id, by the name in `create`, or by its login name. A name is looked up. */
static struct result robot_id(struct session *session, const char *given, char id_out[64], struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(1024);
    struct search search = {.id_out = id_out};

    if (is_id(given)) {
        (void)snprintf(id_out, 64, "%s", given);
        return SUCCESS;
    }
    robot_login_name(given, search.robot);
    TRY(robots_path(search.robot, &path, err));
    const struct page_walk walk = {buffer_text(&path), look, &search};
    TRY(api_walk(session, &walk, err));
    return search.is_found ? SUCCESS : failure(err, ERROR_NOT_FOUND, "there is no robot '%.100s' that you may see", search.robot);
}

static struct result revoke(struct invocation *invocation, struct session *session, const char *kind, const char *id,
                            struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(1024);

    TRY(buffer_format(&path, err, "/%s/", kind));
    TRY(http_escape(&path, id, err));
    TRY(api_call_in(session, "DELETE", buffer_text(&path), NULL, NULL, err));
    if (!invocation->json) {
        (void)fprintf(stderr, "revoked %s\n", invocation->operands[1]);
        return SUCCESS;
    }
    OWNED_JSON object = json_pack("{s:s}", "revoked", id);
    return object == NULL ? no_json("an id", err) : api_print_json(object, err);
}

struct result command_robot_revoke(struct invocation *invocation, struct error *err)
{
    OWNED(session) *session = NULL;
    char id[64];

    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(robot_id(session, invocation->operands[1], id, err));
    return revoke(invocation, session, "robots", id, err);
}

/* "90", "90s", "15m", "2h", "1d" */
static struct result read_grace(const char *text, uint64_t *seconds_out, struct error *err)
{
    static const char units[] = "smhd";
    static const uint64_t seconds[] = {1, 60, 3600, 86400};
    const size_t length = strlen(text);
    const char *unit = length > 1 ? strchr(units, text[length - 1]) : NULL;
    uint64_t number = 0;

    if (!text_to_u64((struct bytes){(const uint8_t *)text, unit == NULL ? length : length - 1}, 1000000, &number))
        return failure(err, ERROR_INVALID, "--grace %.20s: a whole number of seconds, or with m, h or d behind it", text);
    number *= unit == NULL ? 1 : seconds[unit - units];
    if (number > GRACE_MAX) return failure(err, ERROR_INVALID, "--grace %.20s: at most 7d", text);
    *seconds_out = number;
    return SUCCESS;
}

/* "dns:ci.bank.example" and "uri:spiffe://..." stand as they are; a file is named by its digest. */
static struct result name_certificate(const char *given, json_t *body, struct error *err)
{
    struct buffer OWNED_BUFFER pem = BUFFER(CERTIFICATE_PEM_MAX), name = BUFFER(128);
    struct certificate_facts facts;

    if (strncmp(given, "dns:", 4) == 0 || strncmp(given, "uri:", 4) == 0) return set_text(body, "certificate", given, err);
    TRY(local(file_read(given, &pem, err), given, err));
    TRY(certificate_inspect(buffer_bytes(&pem), &facts, err));
    TRY(buffer_add_text(&name, "x5t#S256:", err));
    TRY(text_base64(&name, BASE64_URL, (struct bytes){facts.sha256, sizeof facts.sha256}, err));
    return set_text(body, "certificate", buffer_text(&name), err);
}

struct result command_robot_rotate(struct invocation *invocation, struct error *err)
{
    const char *grace = invocation_option(invocation, 'g'), *certificate = invocation_option(invocation, 'k');
    struct buffer OWNED_BUFFER path = BUFFER(1024);
    OWNED(session) *session = NULL;
    OWNED_JSON body = json_object();
    OWNED_JSON answer = NULL;
    uint64_t grace_s = 0;
    char id[64];

    if (grace != NULL) TRY(line_check(invocation, read_grace(grace, &grace_s, err)));
    if (body == NULL || json_object_set_new(body, "grace_seconds", json_integer((json_int_t)grace_s)) != 0)
        return failure(err, ERROR_NO_MEMORY, "no memory for a request");
    TRY(line_check(invocation, set_days(invocation, ROBOT_DAYS, body, err)));
    if (certificate != NULL) TRY(line_check(invocation, name_certificate(certificate, body, err)));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(robot_id(session, invocation->operands[1], id, err));
    TRY(buffer_add_text(&path, "/robots/", err));
    TRY(http_escape(&path, id, err));
    TRY(buffer_add_text(&path, "/secret", err));
    TRY(api_call_in(session, "POST", buffer_text(&path), body, &answer, err));
    return api_print(invocation, answer, err);
}

struct result command_binding_create(struct invocation *invocation, struct error *err)
{
    const char *principal = invocation->operands[1], *issuer = invocation_option(invocation, 'i');
    OWNED(session) *session = NULL;
    OWNED_JSON answer = NULL;
    OWNED_JSON body = json_pack("{s:s,s:s}", "role", invocation->operands[2], "scope", invocation->operands[3]);
    char id[64];

    if (issuer != NULL && url_names_user(issuer)) TRY(line_check(invocation, address_check(issuer, err)));
    if (body == NULL) return no_json("a role or scope", err);
    TRY(line_check(invocation, set_days(invocation, BINDING_DAYS, body, err)));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    if (issuer != NULL) {
        TRY(set_text(body, "issuer", issuer, err));
        TRY(set_text(body, "subject", principal, err));
    } else {
        const struct result found = robot_id(session, principal, id, err);
        if (!found.ok && err->kind == ERROR_NOT_FOUND && strncmp(principal, "robot$", 6) != 0)
            return failure(err, ERROR_NOT_FOUND,
                           "there is no robot '%.100s'; a person or another subject of an issuer needs --issuer URL", principal);
        TRY(found);
        TRY(set_text(body, "robot", id, err));
    }
    TRY(with_words(invocation, "roles", roles, api_call_in(session, "POST", "/bindings", body, &answer, err), err));
    if (issuer != NULL) issuer_warn(session, issuer);
    return api_print(invocation, answer, err);
}

struct result command_binding_list(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {{"ID", "id"},     {"ROBOT", "robot"}, {"SUBJECT", "subject"}, {"ISSUER", "issuer"},
                                            {"ROLE", "role"}, {"SCOPE", "scope"}, {"EXPIRES", "expires"}};

    return api_list(invocation, "/bindings", "bindings", columns, COUNT(columns), err);
}

struct result command_binding_revoke(struct invocation *invocation, struct error *err)
{
    OWNED(session) *session = NULL;

    if (!is_id(invocation->operands[1]))
        return line_check(invocation, failure(err, ERROR_INVALID,
                                              "'%.80s' is no ID: sijil admin binding list %.100s shows those of all roles",
                                              invocation->operands[1], invocation->operands[0]));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    return revoke(invocation, session, "bindings", invocation->operands[1], err);
}
