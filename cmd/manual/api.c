/* The generated part of docs/api.md, and the description of the API as a file. */
#include <assert.h>
#include <string.h>

#include "cmd/manual/manual.h"
#include "gateway/api/openapi.h"
#include "gateway/pipeline/parameters.h"
#include "gateway/routes.h"

#define PREFIX      "/api/v1"
#define SAYING_MAX  1024
#define SCHEMAS_MAX 512 /* of all routes; about twice the present number */

struct schemas {
    const struct schema *list[SCHEMAS_MAX];
    size_t count;
};

static bool is_of_api(const struct route *route)
{
    return strncmp(route->pattern, PREFIX "/", strlen(PREFIX "/")) == 0;
}

static size_t topic_length(const struct route *route)
{
    return strcspn(route->pattern + strlen(PREFIX "/"), "/.");
}

static bool is_same_topic(const struct route *one, const struct route *other)
{
    const size_t length = topic_length(one);

    return length == topic_length(other) &&
           memcmp(one->pattern + strlen(PREFIX "/"), other->pattern + strlen(PREFIX "/"), length) == 0;
}

/* Adds a schema and then the schemas it refers to, each once, in the order of the page. */
/* NOLINTNEXTLINE(misc-no-recursion): as deep as the schemas, which are constants of the program */
static void collect(struct schemas *schemas, const struct schema *schema)
{
    for (size_t i = 0; i < schemas->count; i++)
        if (schemas->list[i] == schema) return;
    if (schema->members == NULL || schema->count == 0) return;
    assert(schemas->count < SCHEMAS_MAX);
    schemas->list[schemas->count++] = schema;
    for (size_t i = 0; i < schema->count; i++)
        if (schema->members[i].of != NULL) collect(schemas, schema->members[i].of);
}

/* An unescaped "|" would end the cell. */
static void cell(FILE *out, const char *text)
{
    (void)fputs("| ", out);
    for (; *text != '\0'; text++) {
        if (*text == '|') (void)fputc('\\', out);
        (void)fputc(*text, out);
    }
    (void)fputc(' ', out);
}

static void cell_of_schema(FILE *out, const struct schema *schema)
{
    if (schema->content_type == NULL) (void)fputs("| ", out);
    else if (schema->members == NULL || schema->count == 0) cell(out, schema->members == NULL ? schema->name : "`{}`");
    else (void)fprintf(out, "| [%s](#%s) ", schema->name, schema->name);
}

static void write_route(FILE *out, const struct route *route)
{
    char path[OPENAPI_PATH_SIZE];

    openapi_path(route, path);
    for (enum method method = 0; method < METHOD_COUNT; method++) {
        if ((route->methods & METHOD_BIT(method)) == 0 || method == METHOD_HEAD) continue;
        (void)fprintf(out, "| `%s %s` ", method_name(method), path + strlen(PREFIX));
    }
    cell(out, route->about->summary);
    cell(out, route->about->parameters);
    cell_of_schema(out, route->about->body);
    (void)fprintf(out, "| %u", route->about->statuses[0]);
    for (size_t i = 1; i < ROUTE_STATUSES_MAX && route->about->statuses[i] != 0; i++)
        (void)fprintf(out, ", %u", route->about->statuses[i]);
    (void)fputc(' ', out);
    cell_of_schema(out, route->about->answer);
    (void)fprintf(out, "| %s |\n", route->action_count == 0 ? "" : action_name(route->actions[1]));
}

static bool is_first_of_topic(size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (is_of_api(&route_table.rows[i]) && is_same_topic(&route_table.rows[i], &route_table.rows[index])) return false;
    return is_of_api(&route_table.rows[index]);
}

static void write_topic(FILE *out, size_t first)
{
    const struct route *rows = route_table.rows;

    (void)fprintf(
        out,
        "\n### Routes of /%.*s\n\n| route | what it does | parameters | body | status | answer | action |\n|---|---|---|---|---|---|---|\n",
        (int)topic_length(&rows[first]), rows[first].pattern + strlen(PREFIX "/"));
    for (size_t i = first; i < route_table.count; i++)
        if (is_of_api(&rows[i]) && is_same_topic(&rows[i], &rows[first])) write_route(out, &rows[i]);
}

static void cell_of_value(FILE *out, const struct schema_member *member)
{
    struct buffer OWNED_BUFFER saying = BUFFER(SAYING_MAX);
    struct error err = {0};

    if (!schema_say(member, &saying, &err).ok) (void)fprintf(stderr, "%s: %s\n", member->name, err.message);
    cell(out, buffer_text(&saying));
}

/* Members of an object have a column that says whether they are always there. Parameters have no such column. */
static void write_member(FILE *out, const struct schema_member *member, bool is_parameter)
{
    (void)fprintf(out, "| `%s` ", member->name);
    if (member->of != NULL)
        (void)fprintf(out, "| %s [%s](#%s) ", member->type == SCHEMA_LIST ? "a list of" : "object", member->of->name,
                      member->of->name);
    else cell_of_value(out, member);
    if (!is_parameter) cell(out, (member->presence & REQUIRED) != 0 ? "always" : "");
    cell(out, member->meaning);
    (void)fputs("|\n", out);
}

static void write_schema(FILE *out, const struct schema *schema)
{
    (void)fprintf(out, "\n### %s\n\n%c%s.\n\n| member | what | there | meaning |\n|---|---|---|---|\n", schema->name,
                  schema->meaning[0] >= 'a' && schema->meaning[0] <= 'z' ? schema->meaning[0] - 'a' + 'A' : schema->meaning[0],
                  schema->meaning + 1);
    for (size_t i = 0; i < schema->count; i++) write_member(out, &schema->members[i], false);
}

static void write_parameters(FILE *out)
{
    (void)fputs("\n## Parameters\n\n| parameter | what | meaning |\n|---|---|---|\n", out);
    for (const struct schema_member *member = route_parameters; member->name != NULL; member++) write_member(out, member, true);
}

void api_tables(FILE *out)
{
    struct schemas schemas = {.count = 0};

    for (size_t i = 0; i < route_table.count; i++)
        if (is_first_of_topic(i)) write_topic(out, i);
    write_parameters(out);
    (void)fputs("\n## Objects\n", out);
    for (size_t i = 0; i < route_table.count; i++) {
        if (!is_of_api(&route_table.rows[i])) continue;
        collect(&schemas, route_table.rows[i].about->body);
        collect(&schemas, route_table.rows[i].about->answer);
    }
    collect(&schemas, &schema_problem);
    for (size_t i = 0; i < schemas.count; i++) write_schema(out, schemas.list[i]);
}

bool api_description(FILE *out)
{
    struct buffer OWNED_BUFFER text = BUFFER(OPENAPI_MAX);
    struct error err = {0};

    if (openapi_write(&route_table, &text, &err).ok) return fputs(buffer_text(&text), out) >= 0;
    (void)fprintf(stderr, "%s\n", err.message);
    return false;
}
