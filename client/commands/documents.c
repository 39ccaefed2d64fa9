#include "client/commands/documents.h"

#include <string.h>

#include "base/json.h"
#include "base/terminal_text.h"
#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"

#define PATH_ROOM 1024

const char *documents_scope(const struct invocation *invocation)
{
    const char *scope = invocation_option(invocation, 's');

    return scope == NULL ? "" : scope;
}

struct result documents_sign(enum document_kind kind, struct bytes payload, const struct ecdsa_key *key, json_t **envelope_out,
                             struct error *err)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(DOCUMENTS_ENVELOPE_ROOM);

    TRY(document_sign(kind, payload, key, &envelope, err));
    return json_read(buffer_bytes(&envelope), DOCUMENTS_ENVELOPE_ROOM, envelope_out, err);
}

static struct result list_path(const struct invocation *invocation, const struct documents_list *list, const json_t *next,
                               struct buffer *path, struct error *err)
{
    TRY(buffer_format(path, err, "%s?limit=1000", list->base));
    if (!list->has_no_scope) TRY(buffer_add_text(path, "&scope=", err));
    if (!list->has_no_scope) TRY(http_escape(path, documents_scope(invocation), err));
    return api_add_after(path, next, err);
}

struct result documents_get_all(const struct invocation *invocation, struct session *session, const struct documents_list *list,
                                json_t *rows, struct error *err)
{
    OWNED_JSON next = NULL;

    do {
        struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM);
        OWNED_JSON answer = NULL;
        TRY(list_path(invocation, list, next, &path, err));
        TRY(api_call_in(session, "GET", buffer_text(&path), NULL, &answer, err));
        if (json_array_extend(rows, json_object_get(answer, "drafts")) != 0 ||
            json_array_extend(rows, json_object_get(answer, list->name)) != 0)
            return failure(err, ERROR_INVALID, "the registry answered without '%s' and 'drafts'", list->name);
        json_decref(next);
        next = json_incref(json_object_get(answer, "next"));
    } while (json_is_string(next));
    return SUCCESS;
}

/* Whoever forgets --scope looks among the documents of the registry itself. */
static const char *elsewhere(const struct invocation *invocation)
{
    if (documents_scope(invocation)[0] != '\0') return "";
    for (size_t i = 0; i < invocation->command->option_count; i++)
        if (strcmp(invocation->command->options[i].name, "scope") == 0) return " (--scope names an organisation or a project)";
    return "";
}

struct result documents_choose(const struct invocation *invocation, struct session *session, const struct documents_list *list,
                               bool is_draft, json_t **row_out, struct error *err)
{
    const char *name = invocation->operands[1];
    OWNED_JSON rows = json_array();

    if (rows == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    TRY(documents_get_all(invocation, session, list, rows, err));
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i);
        const char *found = json_text_of(row, "name");
        if (found == NULL || strcmp(found, name) != 0 || (json_object_get(row, "envelope") != NULL) != is_draft) continue;
        *row_out = json_incref(row);
        return SUCCESS;
    }
    return failure(err, ERROR_NOT_FOUND, is_draft ? "no draft of the %s %.60s waits there%s" : "no %s %.60s is enrolled there%s",
                   list->what, name, elsewhere(invocation));
}

struct result documents_find(struct invocation *invocation, const struct documents_list *list, json_t **answer_out,
                             struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM);
    OWNED(session) *session = NULL;
    struct error none = {0};

    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(documents_path(invocation, list->base, "", &path, err));
    const struct result found = api_call_in(session, "GET", buffer_text(&path), NULL, answer_out, err);
    if (found.ok || err->kind != ERROR_NOT_FOUND) return found;
    /* The route knows recorded documents only; a draft is in the list. The error stays if there is no draft either. */
    return documents_choose(invocation, session, list, true, answer_out, &none).ok ? SUCCESS : found;
}

static struct result add_safely(struct buffer *text, const char *added, size_t length, struct error *err)
{
    const size_t before = text->length;

    TRY(buffer_add(text, added, length, err));
    TRY(buffer_add_u8(text, '\0', err));
    terminal_sanitize((char *)text->data + before);
    return SUCCESS;
}

struct result documents_show_member(const char *name, const json_t *value, struct error *err)
{
    struct buffer OWNED_BUFFER shown = BUFFER(2 * DOCUMENTS_ENVELOPE_ROOM), written = BUFFER(DOCUMENTS_ENVELOPE_ROOM);

    if (json_is_string(value)) TRY(buffer_add(&written, json_string_value(value), json_string_length(value), err));
    else TRY(json_write_canonical(&written, value, err));
    TRY(add_safely(&shown, name, strlen(name), err));
    TRY(add_safely(&shown, buffer_text(&written), strlen(buffer_text(&written)), err));
    (void)fprintf(stderr, "  %-11s %s\n", (const char *)shown.data, (const char *)shown.data + strlen(name) + 1);
    return SUCCESS;
}

struct result documents_path(const struct invocation *invocation, const char *base, const char *tail, struct buffer *path,
                             struct error *err)
{
    TRY(buffer_format(path, err, "%s/", base));
    TRY(http_escape(path, invocation->operands[1], err));
    TRY(buffer_format(path, err, "%s?scope=", tail));
    return http_escape(path, documents_scope(invocation), err);
}

struct result documents_end(struct invocation *invocation, const char *base, const char *tail, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM);
    OWNED(session) *session = NULL;

    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(documents_path(invocation, base, tail, &path, err));
    return api_call_in(session, "DELETE", buffer_text(&path), NULL, NULL, err);
}
