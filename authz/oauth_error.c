/* The errors of OAuth 2.0, as their table has them. */
#include "authz/authenticate.h"

static const struct {
    const char *name;
    unsigned status;
} oauth_errors[] = {[OAUTH_NONE] = {"", 200},
#define X(constant, name, status) [constant] = {name, status},
                    OAUTH_ERRORS(X)
#undef X
};

const char *oauth_error_name(enum oauth_error error)
{
    return oauth_errors[error].name;
}

unsigned oauth_error_status(enum oauth_error error)
{
    return oauth_errors[error].status;
}
