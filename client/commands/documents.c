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

struct collecting {
    const struct documents_list *list;
    json_t *rows;
};

static struct result take_page(void *context, const json_t *page, bool *is_enough_out, struct error *err)
{
    const struct collecting *collecting = context;

    *is_enough_out = false;
    if (json_array_extend(collecting->rows, json_object_get(page, "drafts")) == 0 &&
        json_array_extend(collecting->rows, json_object_get(page, collecting->list->name)) == 0)
        return SUCCESS;
    return failure(err, ERROR_INVALID, "the registry answered without '%s' and 'drafts'", collecting->list->name);
}

struct result documents_get_all(const struct invocation *invocation, struct session *session, const struct documents_list *list,
                                json_t *rows, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM);
    struct collecting collecting = {list, rows};

    TRY(buffer_format(&path, err, "%s?limit=1000", list->base));
    if (!list->has_no_scope) TRY(buffer_add_text(&path, "&scope=", err));
    if (!list->has_no_scope) TRY(http_escape(&path, documents_scope(invocation), err));
    const struct page_walk walk = {buffer_text(&path), take_page, &collecting};
    return api_walk(session, &walk, err);
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

struct result documents_path_of(const char *base, const char *name, const char *tail, const char *scope, struct buffer *path,
                                struct error *err)
{
    TRY(buffer_format(path, err, "%s/", base));
    TRY(http_escape(path, name, err));
    TRY(buffer_add_text(path, tail, err));
    if (scope == NULL) return SUCCESS;
    TRY(buffer_add_text(path, "?scope=", err));
    return http_escape(path, scope, err);
}

struct result documents_path(const struct invocation *invocation, const char *base, const char *tail, struct buffer *path,
                             struct error *err)
{
    return documents_path_of(base, invocation->operands[1], tail, documents_scope(invocation), path, err);
}

struct result documents_newest_version(struct session *session, const struct documents_list *list, const char *name,
                                       const char *scope, int64_t *version_out, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM);
    OWNED_JSON answer = NULL;
    struct error none = {0};

    *version_out = 0;
    TRY(documents_path_of(list->base, name, "", scope, &path, err));
    if (!api_call_in(session, "GET", buffer_text(&path), NULL, &answer, &none).ok)
        return none.kind == ERROR_NOT_FOUND ? SUCCESS : failure(err, none.kind, "%s", none.message);
    if (json_integer_of(json_object_get(answer, "document"), "version", version_out)) return SUCCESS;
    return failure(err, ERROR_INVALID, "the registry answered without the version of the %s", list->what);
}

struct result documents_sign_too(const json_t *draft, const struct document *document, const struct ecdsa_key *key,
                                 json_t **body_out, struct error *err)
{
    OWNED_JSON envelopes = json_copy(json_object_get(draft, "envelopes"));
    OWNED_JSON approval = NULL;

    TRY(documents_sign(document->kind, document_payload(document), key, &approval, err));
    if (json_array_append(envelopes, approval) != 0) return api_no_memory(err);
    *body_out = json_pack("{s:O}", "envelopes", envelopes);
    return *body_out == NULL ? api_no_memory(err) : SUCCESS;
}

struct result documents_end(struct invocation *invocation, const char *base, const char *tail, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM);
    OWNED(session) *session = NULL;

    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(documents_path(invocation, base, tail, &path, err));
    return api_call_in(session, "DELETE", buffer_text(&path), NULL, NULL, err);
}
