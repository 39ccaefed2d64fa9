/* `sijil admin issuer ...`: the issuers whose tokens the registry accepts. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"
#include "client/commands/issuer_priv.h"
#include "client/local.h"
#include "client/terminal.h"

#define COUNT(array)     (sizeof(array) / sizeof((array)[0]))
#define JWKS_MAX         (64 * 1024) /* limit of bodies of /api/v1 */
#define LIFETIME_SECONDS 86400

struct result issuer_algorithms(const struct invocation *invocation, const char *const *usual, json_t **algorithms_out,
                                struct error *err)
{
    OWNED_JSON algorithms = json_array();
    const char *name;
    unsigned at = 0;

    while ((name = invocation_next_option(invocation, 'A', &at)) != NULL)
        if (json_array_append_new(algorithms, json_string(name)) != 0) return api_no_memory(err);
    for (bool none = json_array_size(algorithms) == 0; none && *usual != NULL; usual++)
        if (json_array_append_new(algorithms, json_string(*usual)) != 0) return api_no_memory(err);
    *algorithms_out = GIVE(algorithms);
    return SUCCESS;
}

struct result issuer_set_options(const struct invocation *invocation, json_t *body, struct error *err)
{
    const char *audience = invocation_option(invocation, 'a'), *lifetime = invocation_option(invocation, 'm');
    uint64_t seconds = 0;

    if (audience != NULL && json_object_set_new(body, "audience", json_string(audience)) != 0)
        return failure(err, ERROR_INVALID, "--audience: text in UTF-8");
    if (lifetime == NULL) return SUCCESS;
    if (!text_to_u64(bytes_of_text(lifetime), LIFETIME_SECONDS, &seconds) || seconds == 0)
        return failure(err, ERROR_INVALID, "--lifetime-max %.20s: a whole number of seconds, at most %d", lifetime,
                       LIFETIME_SECONDS);
    return json_object_set_new(body, "lifetime_max", json_integer((json_int_t)seconds)) == 0 ? SUCCESS : api_no_memory(err);
}

static struct result read_keys(const char *path, json_t **keys_out, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(JWKS_MAX);

    TRY(file_read(path, &text, err));
    return json_read(buffer_bytes(&text), JWKS_MAX, keys_out, err);
}

struct result command_issuer_trust(struct invocation *invocation, struct error *err)
{
    OWNED_JSON answer = NULL;
    OWNED_JSON algorithms = NULL;
    OWNED_JSON keys = NULL;

    TRY(local(read_keys(invocation->operands[2], &keys, err), invocation->operands[2], err));
    TRY(issuer_algorithms(invocation, (const char *const[]){"RS256", NULL}, &algorithms, err));
    OWNED_JSON body = json_pack("{s:s,s:O,s:O}", "url", invocation->operands[1], "algorithms", algorithms, "jwks", keys);
    if (body == NULL) return failure(err, ERROR_INVALID, "a URL that is not UTF-8, or no memory");
    TRY(line_check(invocation, issuer_set_options(invocation, body, err)));
    TRY(api_call(invocation, "POST", "/issuers", body, &answer, err));
    return api_print(invocation, answer, err);
}

struct result command_issuer_list(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {{"ID", "id"},
                                            {"URL", "url"},
                                            {"AUDIENCE", "audience"},
                                            {"ALGORITHMS", "algorithms"},
                                            {"LIFETIME", "lifetime_max"},
                                            {"FOLLOWED", "follows"},
                                            {"PROBLEM", "problem"}};

    return api_list(invocation, "/issuers", "issuers", columns, COUNT(columns), err);
}

static bool take_id(const json_t *page, const char *url, char id_out[ISSUER_ID_SIZE])
{
    const json_t *issuers = json_object_get(page, "issuers");

    for (size_t i = 0; i < json_array_size(issuers); i++) {
        const char *found = json_text_of(json_array_get(issuers, i), "url"), *id = json_text_of(json_array_get(issuers, i), "id");
        if (found == NULL || id == NULL || strcmp(found, url) != 0) continue;
        (void)snprintf(id_out, ISSUER_ID_SIZE, "%s", id);
        return true;
    }
    return false;
}

struct search {
    const char *url;
    char id[ISSUER_ID_SIZE]; /* "": not found yet */
};

static struct result look(void *context, const json_t *page, bool *is_enough_out, struct error *err)
{
    struct search *search = context;

    (void)err;
    *is_enough_out = take_id(page, search->url, search->id);
    return SUCCESS;
}

/* "" if there is none. */
static struct result find(struct session *session, const char *url, char id_out[ISSUER_ID_SIZE], struct error *err)
{
    struct search search = {url, ""};
    const struct page_walk walk = {"/issuers?limit=1000", look, &search};

    TRY(api_walk(session, &walk, err));
    (void)snprintf(id_out, ISSUER_ID_SIZE, "%s", search.id);
    return SUCCESS;
}

struct result issuer_path(struct session *session, const char *named, struct buffer *path, struct error *err)
{
    char id[ISSUER_ID_SIZE];

    (void)snprintf(id, sizeof id, "%s", named);
    if (strchr(named, '/') != NULL) TRY(find(session, named, id, err));
    if (id[0] == '\0') return failure(err, ERROR_NOT_FOUND, "there is no trusted issuer '%.150s'", named);
    TRY(buffer_add_text(path, "/issuers/", err));
    return http_escape(path, id, err);
}

struct result command_issuer_remove(struct invocation *invocation, struct error *err)
{
    OWNED(session) *session = NULL;
    struct buffer OWNED_BUFFER path = BUFFER(1024);
    const char *named = invocation->operands[1];

    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(issuer_path(session, named, &path, err));
    TRY(api_call_in(session, "DELETE", buffer_text(&path), NULL, NULL, err));
    if (!invocation->json) {
        (void)fprintf(stderr, "removed %s\n", named);
        return SUCCESS;
    }
    OWNED_JSON object = json_pack("{s:s}", "removed", buffer_text(&path) + sizeof "/issuers/" - 1);
    return object == NULL ? api_no_memory(err) : api_print_json(object, err);
}

void issuer_warn(struct session *session, const char *url)
{
    struct error ignored = {0};
    char id[ISSUER_ID_SIZE], shown[CELL_MAX];

    if (!find(session, url, id, &ignored).ok || id[0] != '\0') return;
    (void)snprintf(shown, sizeof shown, "%.200s", url);
    terminal_sanitize(shown);
    (void)fprintf(stderr,
                  "warning: no trusted issuer has the URL %s, so this role has no effect until one has:"
                  " sijil admin issuer trust\n",
                  shown);
}
