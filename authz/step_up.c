#include "authz/step_up.h"

#include <string.h>

#include "authz/claims.h"
#include "authz/trust_rules.h"
#include "base/text.h"

static const struct {
    enum action action;
    unsigned age_s;
} rows[] = {
#define STEP_UP(action, seconds) {action, seconds},
#include "authz/step_up.def"
#undef STEP_UP
};

static unsigned age_of(enum action action)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].action == action) return rows[i].age_s;
    return 0;
}

static bool is_listed(const char *list, const char *word)
{
    struct bytes left = bytes_of_text(list);

    while (left.length > 0)
        if (bytes_equal(text_cut(&left, ' '), bytes_of_text(word))) return word[0] != '\0';
    return false;
}

void step_up_forget(struct principal *principal, const char *clients)
{
    if (clients[0] == '\0' || principal->is_limited || is_listed(clients, principal->client)) return;
    principal->auth_time_s = 0;
    principal->acr[0] = '\0';
}

bool step_up_is_met(const struct principal *principal, enum action action, const char *wanted, int64_t now_ms,
                    unsigned *age_s_out)
{
    const unsigned age_s = age_of(action);
    const int64_t passed_s = now_ms / 1000 - principal->auth_time_s;

    if (wanted[0] == '\0' || age_s == 0 || principal->kind != PRINCIPAL_EXTERNAL || strcmp(principal->issuer, TRUST_ISSUER) == 0)
        return true;
    *age_s_out = age_s;
    return principal->auth_time_s > 0 && passed_s >= -CLAIMS_SKEW_S && passed_s <= age_s &&
           (strcmp(wanted, STEP_UP_ANY) == 0 || is_listed(wanted, principal->acr));
}
