/* Rules of a project: accepted rules are within their bounds, and their patterns have the same meaning letter by letter. */
#include <assert.h>
#include <string.h>

#include "registry/rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The same by its definition. */
static bool fits(const char *pattern, const char *name, unsigned *steps)
{
    if (++*steps > 100000) return false;
    if (*pattern == '\0') return *name == '\0';
    if (*pattern == '*') return fits(pattern + 1, name, steps) || (*name != '\0' && fits(pattern, name + 1, steps));
    return *name != '\0' && (*pattern == '?' || *pattern == *name) && fits(pattern + 1, name + 1, steps);
}

static void check_pattern(const char *pattern)
{
    static const char *const names[] = {"", "v1", "v1.0.0", "team/digits", "aaaaaaaaaaaaaaaaab", "latest"};

    assert(pattern_is_valid(bytes_of_text(pattern)));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        unsigned steps = 0;
        const bool expected = fits(pattern, names[i], &steps);
        assert(steps > 100000 || pattern_fits(pattern, names[i]) == expected);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    OWNED(rules) *rules = NULL;
    struct error err = {0};

    if (!rules_read((struct bytes){data, size}, &rules, &err).ok) return 0;
    assert(rules->retention_count <= RULES_MAX && rules->immutable_count <= RULES_MAX);
    assert(rules->untagged_days >= RULES_NONE && rules->untagged_days <= RULES_DAYS_MAX);
    for (size_t i = 0; i < rules->retention_count; i++) {
        check_pattern(rules->retention[i].repositories);
        check_pattern(rules->retention[i].tags);
        assert(rules->retention[i].keep_last >= RULES_NONE && rules->retention[i].keep_last <= RULES_LAST_MAX);
    }
    for (size_t i = 0; i < rules->immutable_count; i++) check_pattern(rules->immutable[i].tags);
    return 0;
}
