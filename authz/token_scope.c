#include "authz/token_scope.h"

#include <stdio.h>
#include <string.h>

#include "authz/role.h"
#include "base/text.h"

/* RFC 6749, 3.3: the characters of scope-token, and spaces. */
static bool is_scope_text(struct bytes text)
{
    for (size_t i = 0; i < text.length; i++)
        if (text.data[i] < ' ' || text.data[i] > '~' || text.data[i] == '"' || text.data[i] == '\\') return false;
    return true;
}

static void add_actions(struct bytes actions, struct principal_access *access)
{
    while (actions.length > 0) {
        const struct bytes action = text_cut(&actions, ',');
        const bool all = bytes_equal(action, bytes_of_text("*"));
        access->pull = access->pull || all || bytes_equal(action, bytes_of_text("pull"));
        access->push = access->push || all || bytes_equal(action, bytes_of_text("push"));
        access->remove = access->remove || all || bytes_equal(action, bytes_of_text("delete"));
    }
}

static struct principal_access *find_name(struct token_scope *scope, struct bytes name)
{
    for (size_t i = 0; i < scope->count; i++)
        if (bytes_equal(name, bytes_of_text(scope->access[i].name))) return &scope->access[i];
    return NULL;
}

static struct result add_repository(struct token_scope *scope, struct bytes name, struct bytes actions, struct error *err)
{
    struct principal_access *access = find_name(scope, name);

    if (name.length == 0 || name.length >= sizeof access->name) return SUCCESS; /* no repository can have such a name */
    if (access == NULL) {
        if (scope->count == PRINCIPAL_ACCESS_MAX)
            return failure(err, ERROR_LIMIT, "a token is for at most %d repositories", PRINCIPAL_ACCESS_MAX);
        access = &scope->access[scope->count++];
        *access = (struct principal_access){.pull = false};
        memcpy(access->name, name.data, name.length);
    }
    add_actions(actions, access);
    return SUCCESS;
}

static struct result add_one(struct token_scope *scope, struct bytes text, struct error *err)
{
    struct bytes rest = text;
    const struct bytes type = text_cut(&rest, ':');
    size_t colon = rest.length;

    if (bytes_equal(text, bytes_of_text("registry:catalog:*"))) scope->catalog = true;
    if (bytes_equal(text, bytes_of_text("registry:admin:*"))) scope->administration = true;
    while (colon > 0 && rest.data[colon - 1] != ':') colon--;
    if (!bytes_equal(type, bytes_of_text("repository")) || colon == 0) return SUCCESS;
    return add_repository(scope, (struct bytes){rest.data, colon - 1}, (struct bytes){rest.data + colon, rest.length - colon},
                          err);
}

struct result token_scope_add(struct token_scope *scope, struct bytes text, struct error *err)
{
    if (text.length > TOKEN_SCOPE_MAX)
        return failure(err, ERROR_LIMIT, "a scope of %zu bytes; at most %d are read", text.length, TOKEN_SCOPE_MAX);
    if (!is_scope_text(text)) return failure(err, ERROR_INVALID, "a scope holds printable ASCII without quotes");
    while (text.length > 0) {
        const struct bytes one = text_cut(&text, ' ');
        TRY(add_one(scope, one, err));
    }
    return SUCCESS;
}

void token_scope_narrow(struct principal_access *wanted, const struct principal_access *live)
{
    wanted->pull = wanted->pull && live->pull;
    wanted->push = wanted->push && live->push;
    wanted->remove = wanted->remove && live->remove;
    wanted->repository = live->repository;
}

void token_scope_compact(struct token_scope *scope)
{
    size_t kept = 0;

    for (size_t i = 0; i < scope->count; i++) {
        const struct principal_access *access = &scope->access[i];
        if (!access->pull && !access->push && !access->remove) continue;
        if (kept != i) scope->access[kept] = *access;
        kept++;
    }
    scope->count = kept;
}

static struct result write_access(const struct principal_access *access, struct buffer *text, struct error *err)
{
    const char *comma = access->pull ? "," : "", *second = access->pull || access->push ? "," : "";

    return buffer_format(text, err, "repository:%s:%s%s%s%s%s", access->name, access->pull ? "pull" : "",
                         access->push ? comma : "", access->push ? "push" : "", access->remove ? second : "",
                         access->remove ? "delete" : "");
}

/* Appends a word if `is_wanted`, with a space before it unless it is the first. */
static struct result add_word(struct buffer *text, size_t start, bool is_wanted, const char *word, struct error *err)
{
    if (!is_wanted) return SUCCESS;
    if (text->length != start) TRY(buffer_add_u8(text, ' ', err));
    return buffer_add_text(text, word, err);
}

struct result token_scope_write(const struct token_scope *scope, struct buffer *text, struct error *err)
{
    const size_t start = text->length;

    for (size_t i = 0; i < scope->count; i++) {
        TRY(add_word(text, start, true, "", err));
        TRY(write_access(&scope->access[i], text, err));
    }
    TRY(add_word(text, start, scope->catalog, "registry:catalog:*", err));
    return add_word(text, start, scope->administration, "registry:admin:*", err);
}

static void add_pair(struct token_scope *scope, const struct action_pair *pair, enum access_right right)
{
    struct principal_access *access = find_name(scope, bytes_of_text(pair->resource.name));

    if (access == NULL) {
        /* Four pairs can't name more. No repository has a name with quotes, so no token would help. */
        if (scope->count == PRINCIPAL_ACCESS_MAX || !is_scope_text(bytes_of_text(pair->resource.name))) return;
        access = &scope->access[scope->count++];
        *access = (struct principal_access){.pull = false};
        (void)snprintf(access->name, sizeof access->name, "%s", pair->resource.name);
    }
    access->pull = access->pull || right == RIGHT_PULL || right == RIGHT_PUSH; /* clients ask for both to push */
    access->push = access->push || right == RIGHT_PUSH;
    access->remove = access->remove || right == RIGHT_DELETE;
}

void token_scope_of_pairs(const struct action_pair *pairs, size_t count, struct token_scope *scope_out)
{
    *scope_out = (struct token_scope){.count = 0};
    for (size_t i = 0; i < count; i++) {
        const enum access_right right = action_right(pairs[i].action);
        scope_out->catalog = scope_out->catalog || right == RIGHT_CATALOG;
        scope_out->administration = scope_out->administration || right == RIGHT_ADMINISTRATION;
        if (right == RIGHT_PULL || right == RIGHT_PUSH || right == RIGHT_DELETE) add_pair(scope_out, &pairs[i], right);
    }
}
