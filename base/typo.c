#include "base/typo.h"

#include <stddef.h>
#include <string.h>

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Both texts are shorter than TYPO_LETTERS. */
static unsigned distance(const char *given, const char *name)
{
    unsigned rows[TYPO_LETTERS + 1][TYPO_LETTERS + 1];
    const size_t rest = strlen(given), length = strlen(name);

    for (size_t j = 0; j <= length; j++) rows[0][j] = (unsigned)j;
    for (size_t i = 1; i <= rest; i++) {
        rows[i][0] = (unsigned)i;
        for (size_t j = 1; j <= length; j++) {
            const unsigned replaced = rows[i - 1][j - 1] + (given[i - 1] == name[j - 1] ? 0 : 1);
            const bool is_turned = i > 1 && j > 1 && given[i - 1] == name[j - 2] && given[i - 2] == name[j - 1];
            rows[i][j] = least(least(rows[i - 1][j], rows[i][j - 1]) + 1, replaced);
            if (is_turned) rows[i][j] = least(rows[i][j], rows[i - 2][j - 2] + 1);
        }
    }
    return rows[rest][length];
}

bool typo_is_near(const char *given, const char *name, unsigned *best)
{
    const size_t letters = strlen(name);

    if (strlen(given) >= TYPO_LETTERS || letters >= TYPO_LETTERS) return false;
    const unsigned apart = distance(given, name);
    if (3 * apart > letters + 1 || apart >= *best) return false;
    *best = apart;
    return true;
}

const char *typo_nearest(const char *given, const char *const *names, unsigned count)
{
    const char *nearest = NULL;
    unsigned best = TYPO_BEST;

    for (unsigned i = 0; i < count; i++)
        if (typo_is_near(given, names[i], &best)) nearest = names[i];
    return nearest;
}
