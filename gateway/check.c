#include "gateway/check.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "crypto/certificate.h"
#include "gateway/http/hosts.h"
#include "gateway/http/tls.h"
#include "storage/pg.h"

#define NAME_SIZE 256 /* RFC 1035: 253 letters of a name */

static void check_name(const struct settings *settings, const char *setting, struct bytes name, struct bytes pem,
                       struct problems *problems)
{
    char text[NAME_SIZE];
    bool covers = false;
    struct error why = {0};

    if (name.length >= sizeof text) return; /* hosts_check() allows such a name, but no certificate has one */
    memcpy(text, name.data, name.length);
    text[name.length] = '\0';
    if (!certificate_covers(pem, text, &covers, &why).ok) problems_add(problems, &why);
    else if (!covers)
        problems_say(
            problems, ERROR_INVALID,
            "tls_certificate = %.100s is not for %.80s, which %s names: clients would refuse it. Have one made with that name",
            settings->tls_certificate, text, setting);
}

static void check_names(const struct settings *settings, struct bytes pem, struct problems *problems)
{
    struct bytes name;
    size_t at = 0;

    if (strlen(settings->public_url) > strlen("https://") && hosts_next(settings->public_url + strlen("https://"), &at, &name))
        check_name(settings, "public_url", name, pem, problems);
    at = 0;
    while (hosts_next(settings->allowed_hosts, &at, &name)) check_name(settings, "allowed_hosts", name, pem, problems);
}

static void check_time(const struct settings *settings, struct bytes pem, struct problems *problems)
{
    const int64_t now_s = clock_wall_ms() / 1000;
    struct certificate_facts facts;
    char when[CLOCK_TEXT_SIZE];
    struct error why = {0};

    if (!certificate_inspect(pem, &facts, &why).ok) return; /* check_pair() has reported it */
    clock_format((now_s < facts.not_before_s ? facts.not_before_s : facts.not_after_s) * 1000, when);
    if (now_s < facts.not_before_s)
        problems_say(problems, ERROR_INVALID, "tls_certificate = %.100s is good from %s on: is this machine's clock right?",
                     settings->tls_certificate, when);
    if (now_s > facts.not_after_s)
        problems_say(problems, ERROR_INVALID, "tls_certificate = %.100s has ended at %s: renew it", settings->tls_certificate,
                     when);
}

static void check_certificate(const struct settings *settings, struct problems *problems)
{
    struct buffer OWNED_BUFFER pem = BUFFER((size_t)CERTIFICATE_PEM_MAX);
    struct error why = {0};

    if (!file_read(settings->tls_certificate, &pem, &why).ok) return;
    check_names(settings, buffer_bytes(&pem), problems);
    check_time(settings, buffer_bytes(&pem), problems);
}

/* settings_examine() has reported files that can't be read. */
static void check_pair(const struct settings *settings, struct problems *problems)
{
    const struct tls_files files = {
        .certificate = settings->tls_certificate, .key = settings->tls_key, .client_ca = settings->tls_client_ca};
    OWNED(tls) *tls = NULL;
    struct error why = {0};

    if (access(settings->tls_certificate, R_OK) != 0 || access(settings->tls_key, R_OK) != 0) return;
    if (!tls_new(&files, &tls, &why).ok)
        problems_say(problems, why.kind, "tls_certificate = %.70s, tls_key = %.70s: %.80s", settings->tls_certificate,
                     settings->tls_key, why.message);
}

/* The packages give the file to the gateway's group. So this group may read the file. */
void check_secrecy(const char *path, const struct settings *settings, struct problems *problems)
{
    bool has_password = false;
    struct stat about;
    struct error ignored = {0};

    if (settings->database[0] == '\0' || !pg_conninfo_check(settings->database, &has_password, &ignored).ok)
        return; /* a problem was reported */
    if (has_password && stat(path, &about) == 0 && (about.st_mode & S_IRWXO) != 0)
        problems_say(problems, ERROR_DENIED, "everybody may read the password in `database`: chmod o= %.150s", path);
}

struct result check_start(const struct settings *settings, struct error *err)
{
    struct error first;
    struct problems problems = problems_first(&first);

    check_pair(settings, &problems);
    return problems.count == 0 ? SUCCESS : failure(err, first.kind, "%s", first.message);
}

void check_files(const struct settings *settings, struct problems *problems)
{
    check_pair(settings, problems);
    check_certificate(settings, problems);
}
