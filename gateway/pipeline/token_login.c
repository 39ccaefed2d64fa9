#include "gateway/pipeline/token_login.h"

#include <string.h>

#include "authz/robot.h"
#include "base/clock.h"
#include "base/text.h"
#include "crypto/secret.h"
#include "gateway/pipeline/gateway.h"

#define CHOSEN_MAX 1024 /* more than all names that a connection keeps (gateway/http/connection.h) */

void token_login_refuse(struct authentication *authentication, enum oauth_error error, const char *description)
{
    *authentication = (struct authentication){.error = error};
    (void)memccpy(authentication->description, description, '\0', sizeof authentication->description - 1);
}

/* As those of a header, so that both have one code path. */
struct result token_login_password(struct request *request, const struct credential *credential, const char *name,
                                   const char *password, struct authentication *authentication, struct error *err)
{
    const size_t name_length = strlen(name), password_length = strlen(password);
    struct buffer OWNED_BUFFER header = BUFFER((size_t)64 << 10), pair = BUFFER((size_t)32 << 10);
    struct credential basic = *credential;

    if (strchr(name, ':') != NULL || name_length + password_length > (size_t)20 << 10) {
        token_login_refuse(authentication, OAUTH_INVALID_CLIENT,
                           "unknown robot, wrong secret, or the robot was revoked or has expired");
        return SUCCESS;
    }
    TRY(buffer_format(&pair, err, "%s:%s", name, password));
    TRY(buffer_add_text(&header, "Basic ", err));
    TRY(text_base64(&header, BASE64_STANDARD, buffer_bytes(&pair), err));
    basic.is_plain = true;
    basic.authorization = buffer_text(&header);
    const struct result result = authenticate(request->gateway->authenticator, &basic, authentication, err);
    secret_wipe(pair.data, pair.capacity);
    secret_wipe(header.data, header.capacity);
    return result;
}

/* The text by which this robot may log in; the first one if there is none, which is then refused and counted as a wrong secret. */
static struct result choose(const struct request *request, const struct authz_snapshot *snapshot, const char *name,
                            struct buffer *chosen, struct error *err)
{
    struct bytes left = bytes_of_text(request->client_names);

    TRY(buffer_format(chosen, err, ROBOT_CERTIFICATE_THUMBPRINT "%s", request->client_confirmation));
    if (authz_snapshot_login(snapshot, bytes_of_text(name), buffer_bytes(chosen), clock_wall_ms()) != NULL) return SUCCESS;
    while (left.length > 0) {
        const struct bytes line = text_cut(&left, '\n');
        if (authz_snapshot_login(snapshot, bytes_of_text(name), line, clock_wall_ms()) == NULL) continue;
        buffer_clear(chosen);
        return buffer_add(chosen, line.data, line.length, err);
    }
    return SUCCESS;
}

struct result token_login_certificate(struct request *request, const struct credential *credential, const char *name,
                                      struct authentication *authentication, struct error *err)
{
    OWNED(authz_snapshot) *snapshot = authz_directory_take(request->gateway->directory);
    struct buffer OWNED_BUFFER chosen = BUFFER(CHOSEN_MAX);
    struct credential by_certificate = *credential;

    if (request->client_confirmation[0] == '\0') {
        token_login_refuse(authentication, OAUTH_INVALID_CLIENT,
                           "client_id alone needs a client certificate, and none that counts here came with the connection");
        return SUCCESS;
    }
    if (snapshot == NULL) return failure(err, ERROR_UNAVAILABLE, "rights are not known yet");
    TRY(choose(request, snapshot, name, &chosen, err));
    by_certificate.is_certificate = true;
    return token_login_password(request, &by_certificate, name, buffer_text(&chosen), authentication, err);
}
