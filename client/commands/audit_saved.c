/* `sijil audit saved`: searches that "audit search --save" has kept, sealed at the registry (docs/audit.md). */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "client/commands/audit_priv.h"
#include "client/commands/commands_priv.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define BASE         "/audit/searches"

static struct result fetch(struct invocation *invocation, struct session *session, json_t **answer_out, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(1024);

    TRY(buffer_add_text(&path, BASE, err));
    TRY(audit_add_within(invocation, '?', &path, err));
    return audit_advised(invocation, session, api_call_in(session, "GET", buffer_text(&path), NULL, answer_out, err), err);
}

static const json_t *find(const json_t *searches, const char *name)
{
    for (size_t i = 0; i < json_array_size(searches); i++) {
        const char *found = json_text_of(json_array_get(searches, i), "name");
        if (found != NULL && strcmp(found, name) == 0) return json_array_get(searches, i);
    }
    return NULL;
}

static struct result remove_search(const struct invocation *invocation, struct session *session, const json_t *saved,
                                   struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(1024);
    const char *id = json_text_of(saved, "id");

    if (id == NULL) return failure(err, ERROR_INVALID, "the registry answered without the id of the search");
    TRY(buffer_add_text(&path, BASE "/", err));
    TRY(http_escape(&path, id, err));
    TRY(audit_add_within(invocation, '?', &path, err));
    return api_call_in(session, "DELETE", buffer_text(&path), NULL, NULL, err);
}

/* "7d" is seven days before now, and not before the day on which the search was saved. All else goes to the registry as it was saved. */
static struct result add_condition(struct bytes part, struct buffer *path, struct error *err)
{
    struct bytes left = part;
    const struct bytes name = text_cut(&left, '=');
    char value[64];

    TRY(buffer_add_u8(path, '&', err));
    if ((!bytes_equal(name, bytes_of_text("since")) && !bytes_equal(name, bytes_of_text("until"))) ||
        left.length >= sizeof value || memchr(left.data, '%', left.length) != NULL)
        return buffer_add(path, part.data, part.length, err);
    memcpy(value, left.data, left.length);
    value[left.length] = '\0';
    TRY(buffer_add(path, name.data, name.length, err));
    TRY(buffer_add_u8(path, '=', err));
    return audit_time_of(value, path, err);
}

static struct result search_again(struct invocation *invocation, struct session *session, const json_t *saved, uint64_t most,
                                  struct error *err)
{
    const char *text = json_text_of(saved, "search"), *purpose = invocation_option(invocation, 'p');
    const bool is_ascending = invocation_option(invocation, 'O') != NULL;
    struct buffer OWNED_BUFFER path = BUFFER(16384);

    if (text == NULL) return failure(err, ERROR_INVALID, "the registry answered without the search");
    TRY(buffer_format(&path, err, "/audit/events?order=%s", is_ascending ? "ascending" : "descending"));
    for (struct bytes left = bytes_of_text(text); left.length > 0;) TRY(add_condition(text_cut(&left, '&'), &path, err));
    TRY(audit_add_within(invocation, '&', &path, err));
    if (purpose != NULL) TRY(audit_add_parameter(&path, "purpose", purpose, err));
    const struct audit_query query = {buffer_text(&path), is_ascending, most, false};
    return audit_show_events(invocation, session, &query, err);
}

struct result command_audit_saved(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {{"NAME", "name"}, {"SAVED", "saved"}, {"SEARCH", "search"}};
    const char *name = invocation->operand_count < 2 ? NULL : invocation->operands[1];
    OWNED(session) *session = NULL;
    OWNED_JSON answer = NULL;
    uint64_t most = 0;

    TRY(line_check(invocation, audit_check_lines(invocation, &most, err)));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(fetch(invocation, session, &answer, err));
    json_t *searches = json_object_get(answer, "searches");
    if (name == NULL && invocation->json) return api_print_json(searches, err);
    if (name == NULL) return audit_print_dated(invocation, searches, &(struct columns_dated){columns, COUNT(columns), 1, 1}, err);
    const json_t *saved = find(searches, name);
    if (saved == NULL) return failure(err, ERROR_NOT_FOUND, "you have saved no search of the name %.64s", name);
    if (invocation_option(invocation, 'r') != NULL) return remove_search(invocation, session, saved, err);
    return search_again(invocation, session, saved, most, err);
}
