#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/uuid.h"
#include "client/local.h"
#include "client/terminal.h"

#define API_ROOT    "/api/v1"
#define COLUMNS_MAX 12
#define REPEATS_MAX 3

/* "acme/models" of "/projects/acme/models/label?x=y": what the path names, without the words of the API. "": nothing. */
static void name_place(const char *path, char name_out[128])
{
    static const char *const rooms[] = {"/keys/signing/", "/audit/", "/"};
    static const char *const ends[] = {"/approval", "/deletion", "/draft",  "/drafts",    "/label",
                                       "/quota",    "/rules",    "/secret", "/withdrawal"};
    const char *from = path;

    for (size_t i = 0; i < sizeof rooms / sizeof rooms[0] && from == path; i++)
        if (strncmp(path, rooms[i], strlen(rooms[i])) == 0) from += strlen(rooms[i]);
    if (from == path + 1) from += strcspn(from, "/?"); /* the collection */
    from += strspn(from, "/");
    (void)snprintf(name_out, 128, "%.*s", (int)strcspn(from, "?"), from);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        const size_t length = strlen(name_out), tail = strlen(ends[i]);
        if (length > tail && strcmp(name_out + length - tail, ends[i]) == 0) name_out[length - tail] = '\0';
    }
}

/* What takes no key, and is not the same if it is done twice. The other calls of POST without a key only look. */
static bool may_be_repeated(const char *path)
{
    const char *last = strrchr(path, '/');

    if (strncmp(path, "/content-holds/", 15) == 0) return false; /* a release, or its approval */
    if (last != NULL && (strcmp(last, "/copies") == 0 || strcmp(last, "/move") == 0))
        return false; /* in the end keys are destroyed */
    return strcmp(path, "/log-key") != 0 && strcmp(path, "/audit/archives") != 0 && strcmp(path, "/regions/drain") != 0 &&
           strcmp(path, "/regions/retire") != 0;
}

/* Also a conflict with the earlier try itself, which is being answered still. */
static bool comes_again(const struct http_response *response, const struct error *err)
{
    return err->kind == ERROR_UNAVAILABLE || (err->kind == ERROR_CONFLICT && response->retry_after[0] != '\0');
}

/* The failure of the last try says nothing about the one whose answer was lost. */
static struct result not_known(const struct http_response *response, struct error *err)
{
    const struct error last = *err;
    const bool is_decided = last.kind != ERROR_UNAVAILABLE && last.kind != ERROR_DENIED && last.kind != ERROR_LIMIT;

    if (response->was_cut || is_decided) return (struct result){.ok = false};
    return failure(err, last.kind, "%.150s; but the answer to an earlier try was lost: look whether it was done", last.message);
}

/* What makes something is sent again if its answer was lost, under the same key, so that it is made once. */
static struct result call_once(struct session *session, const struct http_request *request, struct http_response *response,
                               struct error *err)
{
    const struct uuid id = uuid_random();
    struct http_request keyed = *request;
    char key[UUID_TEXT_SIZE];
    bool was_cut = false;

    uuid_format(&id, key);
    keyed.repeat_key = key;
    for (unsigned pause_s = 1;; pause_s++) {
        response->was_cut = false;
        const struct result called = session_call(session, ADMIN_SCOPE, &keyed, response, err);
        if (called.ok || !(was_cut || response->was_cut)) return called;
        was_cut = true;
        if (!comes_again(response, err) || pause_s > REPEATS_MAX || session_gives_up(session)) return not_known(response, err);
        session_pause(session, pause_s, err);
    }
}

struct result api_call_in(struct session *session, const char *method, const char *path, const json_t *body, json_t **answer_out,
                          struct error *err)
{
    OWNED_RESPONSE response = RESPONSE;
    struct buffer OWNED_BUFFER url = BUFFER(4096);
    struct buffer OWNED_BUFFER text = BUFFER((size_t)1 << 21);

    TRY(buffer_format(&url, err, API_ROOT "%s", path));
    if (body != NULL) TRY(json_write_canonical(&text, body, err));
    const bool removes = strcmp(method, "DELETE") == 0, makes = strcmp(method, "POST") == 0;
    const struct http_request request = {.method = method,
                                         .path = buffer_text(&url),
                                         .body = buffer_bytes(&text),
                                         .content_type = body == NULL ? NULL : "application/json",
                                         .wanted = removes ? 204
                                                   : makes ? 201
                                                           : 200,
                                         .also = 200,
                                         .comes_later = makes};
    const struct result called = makes && may_be_repeated(path) ? call_once(session, &request, &response, err)
                                                                : session_call(session, ADMIN_SCOPE, &request, &response, err);
    if (!called.ok && err->kind == ERROR_NOT_FOUND) {
        char name[128];
        name_place(path, name);
        if (name[0] != '\0') failure_name(name, err);
    }
    TRY(called);
    if (answer_out == NULL) return SUCCESS;
    return json_read(buffer_bytes(&response.body), HTTP_ANSWER_MAX, answer_out, err);
}

struct result api_no_memory(struct error *err)
{
    return failure(err, ERROR_NO_MEMORY, "no memory for a request or an answer");
}

struct result api_call(struct invocation *invocation, const char *method, const char *path, const json_t *body,
                       json_t **answer_out, struct error *err)
{
    OWNED(session) *session = NULL;

    TRY(command_session(invocation, invocation->operands[0], &session, err));
    return api_call_in(session, method, path, body, answer_out, err);
}

int64_t number_of(const json_t *object, const char *member)
{
    int64_t number = 0;

    (void)json_integer_of(object, member, &number);
    return number;
}

/* "health,children" of an array of words; false for any other value. */
static bool words_text(const json_t *value, char cell[CELL_MAX])
{
    size_t used = 0;

    if (json_array_size(value) == 0) return false;
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *word = json_array_get(value, i);
        if (json_string_length(word) == 0) return false;
        used += (size_t)snprintf(cell + used, CELL_MAX - used, "%s%s", i == 0 ? "" : ",", json_string_value(word));
        if (used >= CELL_MAX) return true; /* cut */
    }
    return true;
}

/* "class=sensitive subjects=health" of an object of such words; false for any other value. */
static bool pairs_text(const json_t *value, char cell[CELL_MAX])
{
    const char *key;
    json_t *member;
    size_t used = 0;

    if (json_object_size(value) == 0) return false;
    json_object_foreach ((json_t *)(uintptr_t)value, key, member) {
        char words[CELL_MAX];
        if (json_string_length(member) > 0) (void)snprintf(words, sizeof words, "%s", json_string_value(member));
        else if (!words_text(member, words)) return false;
        used += (size_t)snprintf(cell + used, CELL_MAX - used, "%s%s=%s", used == 0 ? "" : " ", key, words);
        if (used >= CELL_MAX) return true;
    }
    return true;
}

/* The end of a value that filled the cell, as written by snprintf(), says that there is more; no character is cut in two. */
static void mark_cut(char cell[CELL_MAX])
{
    size_t end = CELL_MAX - sizeof "...";

    if (strlen(cell) < CELL_MAX - 1) return;
    while (end > 0 && ((unsigned char)cell[end] & 0xC0) == 0x80) end--;
    memcpy(cell + end, "...", sizeof "...");
}

void cell_text(const json_t *value, char cell[CELL_MAX])
{
    struct buffer OWNED_BUFFER text = BUFFER(HTTP_ANSWER_MAX);
    struct error ignored = {0};

    if (json_string_length(value) > 0) (void)snprintf(cell, CELL_MAX, "%s", json_string_value(value));
    else if (words_text(value, cell) || pairs_text(value, cell))
        ; /* a label or regimes, shown without brackets and quotes */
    else if (json_is_object(json_array_get(value, 0))) (void)snprintf(cell, CELL_MAX, "%zu", json_array_size(value));
    else if (value == NULL || json_is_string(value) || json_is_null(value)) (void)snprintf(cell, CELL_MAX, "-");
    else if (json_write_canonical(&text, value, &ignored).ok) (void)snprintf(cell, CELL_MAX, "%s", buffer_text(&text));
    else (void)snprintf(cell, CELL_MAX, "...");
    mark_cut(cell);
    terminal_sanitize(cell);
}

#define TABLE_LINE_MAX    ((size_t)COLUMNS_MAX * (CELL_MAX + 2))
#define TERMINAL_CELL_MAX 48
#define COLUMN_LEAST      8 /* letters of a column that is shortened */

static void add_cell(char line[TABLE_LINE_MAX], size_t *used, const char *cell, int width)
{
    const int added = snprintf(line + *used, TABLE_LINE_MAX - *used, "%s%-*s", *used == 0 ? "" : "  ", width, cell);

    if (added > 0) *used += (size_t)added < TABLE_LINE_MAX - *used ? (size_t)added : TABLE_LINE_MAX - *used - 1;
}

/* `columns`: of the terminal; 0: the whole line. */
static void print_line(char line[TABLE_LINE_MAX], unsigned columns)
{
    unsigned used = 0;

    if (columns > 0) line[terminal_fit(line, columns, &used)] = '\0';
    (void)puts(line);
}

/* On a terminal a long cell leaves room for those behind it. */
static void table_cell(const json_t *row, const struct column *column, bool is_last, unsigned terminal, char cell[CELL_MAX])
{
    unsigned used = 0;

    cell_text(json_object_get(row, column->member), cell);
    if (terminal == 0 || is_last || strlen(cell) <= TERMINAL_CELL_MAX) return;
    const size_t end = terminal_fit(cell, TERMINAL_CELL_MAX - 3, &used);
    (void)snprintf(cell + end, CELL_MAX - end, "...");
}

/* The widest column that may be shortened; `count`: none. People copy names and ids, so the first column and ids stay whole. */
static size_t widest_of(const struct column *columns, const size_t widths[COLUMNS_MAX], size_t count)
{
    size_t widest = count;

    for (size_t c = 1; c < count; c++)
        if (widths[c] > COLUMN_LEAST && strcmp(columns[c].title, "ID") != 0 && (widest == count || widths[c] >= widths[widest]))
            widest = c;
    return widest;
}

/* Shortens the widest columns until a line fits the terminal. If it can't, print_line() cuts its end. True: something is cut. */
static bool narrow(const struct column *columns, size_t widths[COLUMNS_MAX], size_t count, unsigned terminal)
{
    size_t line = 2 * (count - 1), widest;

    for (size_t c = 0; c < count; c++) line += widths[c];
    if (line <= terminal) return false;
    for (; line > terminal && (widest = widest_of(columns, widths, count)) < count; line--) widths[widest]--;
    return true;
}

static void shorten(char cell[CELL_MAX], size_t width)
{
    unsigned used = 0;

    if (strlen(cell) <= width) return;
    const size_t end = terminal_fit(cell, (unsigned)width - 2, &used);
    (void)snprintf(cell + end, CELL_MAX - end, "..");
}

static void print_row(const json_t *row, const struct column *columns, const size_t widths[COLUMNS_MAX], size_t count,
                      unsigned terminal)
{
    char cell[CELL_MAX], line[TABLE_LINE_MAX] = "";
    size_t used = 0;

    for (size_t c = 0; c < count; c++) {
        if (row == NULL) (void)snprintf(cell, sizeof cell, "%s", columns[c].title);
        else table_cell(row, &columns[c], c + 1 == count, terminal, cell);
        shorten(cell, widths[c]);
        add_cell(line, &used, cell, c + 1 == count ? 0 : (int)widths[c]);
    }
    print_line(line, terminal);
}

/* `terminal`: its columns; 0: all is shown. */
static void print_table(const json_t *rows, const struct column *columns, size_t column_count, unsigned terminal)
{
    size_t widths[COLUMNS_MAX] = {0};
    char cell[CELL_MAX];

    for (size_t c = 0; c < column_count; c++) {
        widths[c] = strlen(columns[c].title);
        for (size_t r = 0; r < json_array_size(rows); r++) {
            table_cell(json_array_get(rows, r), &columns[c], c + 1 == column_count, terminal, cell);
            if (strlen(cell) > widths[c]) widths[c] = strlen(cell);
        }
    }
    const bool is_cut = terminal > 0 && narrow(columns, widths, column_count, terminal);
    for (size_t r = 0; r <= json_array_size(rows); r++)
        print_row(r == 0 ? NULL : json_array_get(rows, r - 1), columns, widths, column_count, terminal);
    if (is_cut) (void)fputs("(cut to the width of the terminal: --wide shows all)\n", stderr);
}

static unsigned table_columns(const struct invocation *invocation)
{
    return isatty(STDOUT_FILENO) == 1 && !invocation->wide ? terminal_columns() : 0;
}

/* Canonical JSON escapes ASCII's control characters except DEL, and none of the other characters that steer a terminal. */
struct result api_write_json(FILE *stream, const json_t *value, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER((size_t)64 << 20);

    TRY(json_write_canonical(&text, value, err));
    for (const char *letter = buffer_text(&text); *letter != '\0';) {
        size_t length = 0;
        const uint32_t control = terminal_control(letter, &length);
        if (control != 0) (void)fprintf(stream, "\\u%04x", (unsigned)control);
        else (void)fwrite(letter, 1, length == 0 ? 1 : length, stream);
        letter += length == 0 ? 1 : length;
    }
    (void)fputc('\n', stream);
    return SUCCESS;
}

struct result api_print_json(const json_t *value, struct error *err)
{
    return api_write_json(stdout, value, err);
}

struct result api_output(const struct invocation *invocation, const char *path, struct bytes document, struct error *err)
{
    if (path == NULL || strcmp(path, "-") == 0) {
        (void)fwrite(document.data, 1, document.length, stdout);
        return SUCCESS; /* client_main() reports failed output at the end */
    }
    TRY(local_output(file_write_output(path, document, 0644, err), path, err));
    if (!invocation->json) return SUCCESS;
    OWNED_JSON object = json_pack("{s:s}", "output", path);
    return object == NULL ? failure(err, ERROR_INVALID, "a path that is not UTF-8, or no memory") : api_print_json(object, err);
}

struct result api_add_list(struct buffer *path, const char *list, const char *scope, struct error *err)
{
    char place[256];
    const char *slash = strchr(scope, '/'), *end = slash == NULL ? NULL : strchr(slash + 1, '/');

    TRY(buffer_add_text(path, list, err));
    if (scope[0] == '\0') return SUCCESS;
    (void)snprintf(place, sizeof place, "%.*s", end == NULL ? (int)strlen(scope) : (int)(end - scope), scope);
    TRY(buffer_add_text(path, "?scope=", err));
    return http_escape(path, place, err);
}

struct result api_add_after(struct buffer *path, const json_t *next, struct error *err)
{
    char cell[CELL_MAX];

    if (next == NULL) return SUCCESS;
    TRY(buffer_add_text(path, "&after=", err));
    if (json_is_string(next)) return http_escape(path, json_string_value(next), err);
    cell_text(next, cell);
    return http_escape(path, cell, err);
}

struct result api_print_rows(const struct invocation *invocation, const json_t *rows, const struct column *columns,
                             size_t column_count, struct error *err)
{
    if (invocation->json) return api_print_json(rows, err);
    print_table(rows, columns, column_count, table_columns(invocation));
    return SUCCESS;
}

struct result api_get_pages(struct invocation *invocation, const char *path, const char *list, size_t most, json_t *rows,
                            struct error *err)
{
    struct buffer OWNED_BUFFER url = BUFFER(4096);
    OWNED(session) *session = NULL;

    TRY(buffer_format(&url, err, "%s%climit=1000", path, strchr(path, '?') == NULL ? '?' : '&'));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    return api_collect(session, buffer_text(&url), list, most, rows, err);
}

struct result api_list(struct invocation *invocation, const char *path, const char *list, const struct column *columns,
                       size_t column_count, struct error *err)
{
    OWNED_JSON rows = json_array();

    if (rows == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    TRY(api_get_pages(invocation, path, list, SIZE_MAX, rows, err));
    return api_print_rows(invocation, rows, columns, column_count, err);
}

struct result api_list_newest(struct invocation *invocation, const struct newest *newest, size_t most, struct error *err)
{
    OWNED_JSON rows = json_array();

    if (rows == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    TRY(api_get_pages(invocation, newest->path, newest->list, most, rows, err));
    if (invocation->json) return api_print_json(rows, err);
    print_table(rows, newest->columns, newest->column_count, table_columns(invocation));
    return SUCCESS;
}

struct result api_rows(const struct invocation *invocation, const json_t *answer, const char *list, const struct column *columns,
                       size_t column_count, struct error *err)
{
    const json_t *rows = json_object_get(answer, list);

    if (!json_is_array(rows)) return failure(err, ERROR_INVALID, "the registry answered without '%s'", list);
    return api_print_rows(invocation, rows, columns, column_count, err);
}

struct result api_table(struct invocation *invocation, const char *path, const char *list, const struct column *columns,
                        size_t column_count, struct error *err)
{
    OWNED_JSON answer = NULL;

    TRY(api_call(invocation, "GET", path, NULL, &answer, err));
    return api_rows(invocation, answer, list, columns, column_count, err);
}

struct result api_print(const struct invocation *invocation, const json_t *object, struct error *err)
{
    char cell[CELL_MAX], name[CELL_MAX];
    const char *key;
    json_t *value;
    size_t width = 12;

    if (invocation->json) return api_print_json(object, err);
    json_object_foreach ((json_t *)(uintptr_t)object, key, value) width = strlen(key) > width ? strlen(key) : width;
    json_object_foreach ((json_t *)(uintptr_t)object, key, value) {
        cell_text(value, cell);
        (void)snprintf(name, sizeof name, "%s", key);
        terminal_sanitize(name);
        (void)printf("%-*s %s\n", (int)width, name, cell);
    }
    return SUCCESS;
}
