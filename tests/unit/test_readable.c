/* Scopes of bindings as ranges of names: a name is in a range exactly if the principal may pull from it. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "authz/snapshot_priv.h"
#include "base/memory.h"
#include "policy/decider/decider_priv.h"

static struct uuid id_of(char letter)
{
    return (struct uuid){{(uint8_t)letter, 1}};
}

/* Names with different orders by segments and by bytes: '-' and '.' come before '/'. */
static struct tenant_organisation organisations[] = {{.name = "a"}, {.name = "a-b"}, {.name = "b"}};
static struct tenant_project projects[] = {
    {.name = "a-b/m"}, {.name = "a/m"}, {.name = "a/m-2"}, {.name = "a/m.3"}, {.name = "b/m"}};
static struct tenancy tenancy = {.organisation_count = COUNT(organisations),
                                 .organisations = organisations,
                                 .project_count = COUNT(projects),
                                 .projects = projects};
static const char owners[] = "2111"
                             "3",
                  ids[] = "vwxyz";

static void name_all(void)
{
    for (size_t i = 0; i < COUNT(organisations); i++) organisations[i].id = id_of((char)('1' + i));
    for (size_t i = 0; i < COUNT(projects); i++) projects[i].id = id_of(ids[i]), projects[i].organisation = id_of(owners[i]);
}

struct scope {
    enum resource_kind kind;
    char id;
    const char *pattern;
};

static const struct ranges_row {
    const char *name;
    struct scope scopes[4];
    size_t count;
    const char *ranges; /* "from until " of each */
} ranges_rows[] = {
    {"nothing", {{0}}, 0, ""},
    {"everything", {{RESOURCE_SYSTEM, 0, ""}}, 1, " ~ "},
    {"an organisation", {{RESOURCE_ORGANISATION, '1', ""}}, 1, "a/ a0 "},
    {"a project", {{RESOURCE_PROJECT, 'w', ""}}, 1, "a/m/ a/m0 "},
    {"a repository", {{RESOURCE_REPOSITORY, 'w', "a/m/x"}}, 1, "a/m/x a/m/x! "},
    {"what is below one", {{RESOURCE_REPOSITORY, 'w', "a/m/x/*"}}, 1, "a/m/x/ a/m/x0 "},
    {"one and what is below it",
     {{RESOURCE_REPOSITORY, 'w', "a/m/x/*"}, {RESOURCE_REPOSITORY, 'w', "a/m/x"}},
     2,
     "a/m/x a/m/x! a/m/x/ a/m/x0 "},
    {"a project inside its organisation", {{RESOURCE_PROJECT, 'w', ""}, {RESOURCE_ORGANISATION, '1', ""}}, 2, "a/ a0 "},
    {"the same twice", {{RESOURCE_PROJECT, 'w', ""}, {RESOURCE_PROJECT, 'w', ""}}, 2, "a/m/ a/m0 "},
    {"all inside everything",
     {{RESOURCE_PROJECT, 'w', ""}, {RESOURCE_SYSTEM, 0, ""}, {RESOURCE_ORGANISATION, '3', ""}},
     3,
     " ~ "},
    {"in the order of bytes", {{RESOURCE_ORGANISATION, '1', ""}, {RESOURCE_ORGANISATION, '2', ""}}, 2, "a-b/ a-b0 a/ a0 "},
    {"projects with a name in common",
     {{RESOURCE_PROJECT, 'w', ""}, {RESOURCE_PROJECT, 'x', ""}, {RESOURCE_PROJECT, 'y', ""}},
     3,
     "a/m-2/ a/m-20 a/m.3/ a/m.30 a/m/ a/m0 "},
    {"an organisation that is not there", {{RESOURCE_ORGANISATION, '9', ""}, {RESOURCE_PROJECT, 'z', ""}}, 2, "b/m/ b/m0 "},
    {"a project that is not there", {{RESOURCE_PROJECT, '9', ""}, {RESOURCE_REPOSITORY, '9', "a/m/x"}}, 2, ""},
    {"a pattern of another project", {{RESOURCE_REPOSITORY, 'w', "a/m-2/x"}, {RESOURCE_REPOSITORY, 'w', "b/m/*"}}, 2, ""},
};

static size_t bind_scopes(const struct ranges_row *row, struct authz_binding bindings[4], const struct authz_binding *list[4])
{
    for (size_t i = 0; i < row->count; i++) {
        const struct scope *scope = &row->scopes[i];
        bindings[i] = (struct authz_binding){.scope = scope->kind};
        if (scope->kind == RESOURCE_ORGANISATION) bindings[i].organisation = id_of(scope->id);
        if (scope->kind == RESOURCE_PROJECT || scope->kind == RESOURCE_REPOSITORY) bindings[i].project = id_of(scope->id);
        (void)snprintf(bindings[i].pattern, sizeof bindings[i].pattern, "%s", scope->pattern);
        list[i] = &bindings[i];
    }
    return row->count;
}

static bool is_inside(const struct name_ranges *ranges, const char *name)
{
    for (size_t i = 0; i < ranges->count; i++)
        if (strcmp(name, ranges->ranges[i].from) >= 0 && strcmp(name, ranges->ranges[i].until) < 0) return true;
    return false;
}

/* Compares each name with a decision. */
static void check_names(const struct name_ranges *ranges, const struct authz_binding *const list[], size_t count)
{
    static const char *const names[] = {"a/m/x",   "a/m/x-1",   "a/m/x.y", "a/m/x/y", "a/m/x/y/z", "a/m/x0",   "a/m/y",
                                        "a/m-2/x", "a/m.3/x/y", "a-b/m/x", "b/m/x",   "b/m/zz/z",  "a/m-2/x/y"};

    for (size_t n = 0; n < COUNT(names); n++) {
        struct resource resource;
        bool covered = false;
        tenancy_resolve(&tenancy, names[n], &resource);
        for (size_t i = 0; i < count; i++) covered = covered || binding_covers(list[i], &resource);
        if (is_inside(ranges, names[n]) != covered) fail_msg("%s: allowed %d", names[n], covered);
    }
}

static void ranges_are_what_bindings_cover(void **state)
{
    const struct ranges_row *row = *state;
    struct authz_binding bindings[4];
    const struct authz_binding *list[4];
    struct name_ranges *ranges = memory_zeroed(1, sizeof *ranges);
    struct buffer text = BUFFER(4096);
    struct error err = {0};

    assert_non_null(ranges);
    const size_t count = bind_scopes(row, bindings, list);
    tenancy_ranges(&tenancy, list, count, ranges);
    for (size_t i = 0; i < ranges->count; i++)
        assert_true(buffer_format(&text, &err, "%s %s ", ranges->ranges[i].from, ranges->ranges[i].until).ok);
    assert_string_equal(buffer_text(&text), row->ranges);
    check_names(ranges, list, count);
    buffer_done(&text);
    name_ranges_free(ranges);
}

int main(void)
{
    name_all();
    return RUN_TABLE(ranges_rows, ranges_are_what_bindings_cover);
}
