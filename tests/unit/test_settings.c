/* The configuration of sijild: accepted and refused files, and a correct sample. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "gateway/settings/settings.h"

#define URL         "public_url = \"https://registry.example:8443\"\n"
#define CERTIFICATE "tls_certificate = \"/dev/null\"\n"
#define REST                                                                              \
    "tls_key = \"/dev/null\"\ndatabase = \"dbname=sijil\"\nkeyd_socket = \"/run/keyd\"\n" \
    "metadata_region = \"local/main\"\n"
#define GOOD              URL CERTIFICATE REST
#define KEYS              "tls_key = \"/dev/null\"\nmetadata_region = \"local/main\"\n"
#define GOOD_BUT_KEYD     URL CERTIFICATE KEYS "database = \"dbname=sijil\"\n"
#define GOOD_BUT_DATABASE URL CERTIFICATE KEYS "keyd_socket = \"/run/keyd\"\n"
#define S3_REGION(more)                                                                     \
    "region \"local/main\" {\n driver = s3\n endpoint = \"https://s3\"\n bucket = models\n" \
    " bucket_location = \"me-central-1\"\n" more "\n}\n"
#define BUCKET(endpoint, bucket, more)                                                       \
    "region \"local/main\" {\n driver = s3\n endpoint = \"" endpoint "\"\n bucket = " bucket \
    "\n bucket_location = \"me-central-1\"\n access_key_file = \"/dev/null\"\n" more "}\n"
#define LONG                                               \
    "0123456789012345678901234567890123456789012345678901" \
    "2345678901234567890123456789012345678901234567890123"
#define REGION_MAIN "region \"local/main\" {\n driver = fs\n location = \"/var/lib/sijil\"\n}\n"

static const struct settings_row {
    const char *name, *text, *complaint; /* NULL: accepted */
} settings_rows[] = {
    {"the least", GOOD REGION_MAIN, NULL},
    {"a number", GOOD REGION_MAIN "listen_port = 443\n", NULL},
    {"a number out of range", GOOD REGION_MAIN "listen_port = 70000\n", "65535"},
    {"no number", GOOD REGION_MAIN "listen_port = https\n", "whole number"},
    {"an unknown name", GOOD REGION_MAIN "listen_prot = 443\n", "listen_port"},
    {"a line number for it", GOOD REGION_MAIN "\nnonsense = 1\n", "line"},
    {"yes and no", GOOD REGION_MAIN "metrics_public = yes\n", NULL},
    {"neither yes nor no", GOOD REGION_MAIN "metrics_public = perhaps\n", "yes or no"},
    {"a list of witnesses that is not there", GOOD REGION_MAIN "witness_policy = \"/nowhere/witnesses\"\n", "witness_policy"},
    {"networks of witnesses", GOOD REGION_MAIN "witness_networks = \"192.0.2.0/24, 2001:db8::/32\"\n", NULL},
    {"networks of issuers", GOOD REGION_MAIN "issuer_networks = \"192.0.2.0/24, 2001:db8::/32\"\n", NULL},
    {"no networks of issuers", GOOD REGION_MAIN "issuer_networks = \"10.0.0.1/8\"\n", "issuer_networks"},
    {"no networks of witnesses", GOOD REGION_MAIN "witness_networks = \"192.0.2.1/24\"\n", "witness_networks"},
    {"a region that another gateway serves", GOOD REGION_MAIN "region_peers = \"aws/x, on-prem/a\"\n", NULL},
    {"one that is served here, too", GOOD REGION_MAIN "region_peers = \"local/main\"\n", "serves itself"},
    {"one of them twice", GOOD REGION_MAIN "region_peers = \"aws/x, aws/x\"\n", "twice"},
    {"one that is no region", GOOD REGION_MAIN "region_peers = \"aws\"\n", "provider/region"},
    {"a peer in plain HTTP", GOOD REGION_MAIN "region_peers = \"aws/x=http://x:1\"\n", "https://"},
    {"a peer with a path", GOOD REGION_MAIN "region_peers = \"aws/x=https://x:1/y\"\n", "https://"},
    {"two of them without a comma", GOOD REGION_MAIN "region_peers = \"aws/x aws/y\"\n", "comma"},
    {"a peer without a certificate", GOOD REGION_MAIN "region_peers = \"aws/x=https://x:1\"\n", "peer_certificate"},
    {"a port for peers without a certificate", GOOD REGION_MAIN "peer_listen_port = 9443\n", "peer_certificate"},
    {"no networks of peers", GOOD REGION_MAIN "peer_networks = \"10.0.0.1/8\"\n", "peer_networks"},
    {"an address for peers that is a name", GOOD REGION_MAIN "peer_listen_address = localhost\n", "a numeric IP address"},
    {"metadata in a region of another gateway",
     GOOD "region \"aws/x\" {\n driver = fs\n location = \"/x\"\n}\nregion_peers = \"local/main\"\n", NULL},
    {"a lag that is none", GOOD REGION_MAIN "witness_lag = 1\n", "witness_lag"},
    {"nothing that must be there", REGION_MAIN, "must be given"},
    {"no region", GOOD, "no region"},
    {"a region of another name", GOOD "region \"local/other\" {\n driver = fs\n location = \"/x\"\n}\n", "metadata_region"},
    {"an unknown driver", GOOD "region \"local/main\" {\n driver = tape\n location = \"/x\"\n}\n", "fs, s3 or memory"},
    {"a bucket", GOOD S3_REGION("access_key_file = \"/dev/null\""), NULL},
    {"a bucket without a key", GOOD S3_REGION(""), "access_key_file"},
    {"a bucket with a key that is not there", GOOD S3_REGION("access_key_file = \"/nowhere/x\""), "can't read this file"},
    {"a bucket that may be anywhere",
     GOOD "region \"local/main\" {\n driver = s3\n endpoint = \"https://s3\"\n bucket = models\n"
          " access_key_file = \"/dev/null\"\n}\n",
     "bucket_location"},
    {"a relative folder", GOOD "region \"local/main\" {\n driver = fs\n location = \"x\"\n}\n", "absolute"},
    {"plain HTTP", CERTIFICATE REST REGION_MAIN "public_url = \"http://registry.example\"\n", "https://"},
    {"a URL with a path", CERTIFICATE REST REGION_MAIN "public_url = \"https://registry.example/v2\"\n", "without a path"},
    {"a URL with a quote", CERTIFICATE REST REGION_MAIN "public_url = \"https://registry.example\\\"x\"\n", "https://"},
    {"hosts", GOOD REGION_MAIN "allowed_hosts = \"registry.internal, 10.0.0.7:8443 [fd00::7]:*\"\n", NULL},
    {"a host that is a URL", GOOD REGION_MAIN "allowed_hosts = \"registry.internal https://registry.example\"\n",
     "https://registry.example"},
    {"a host of any name", GOOD REGION_MAIN "allowed_hosts = \"*\"\n", "host:*"},
    {"a host with an address that is none", GOOD REGION_MAIN "allowed_hosts = \"10.0.0.777\"\n", "10.0.0.777"},
    {"a host with IPv6 that is none", GOOD REGION_MAIN "allowed_hosts = \"[fd00::7::1]\"\n", "fd00::7::1"},
    {"an address", GOOD REGION_MAIN "listen_address = \"0.0.0.0\"\n", NULL},
    {"an address of IPv6", GOOD REGION_MAIN "listen_address = \"::1\"\n", NULL},
    {"an address that is none", GOOD REGION_MAIN "listen_address = \"999.1.1.1\"\n",
     "listen_address = 999.1.1.1: a numeric IP address"},
    {"an address that is a name", GOOD REGION_MAIN "listen_address = localhost\n", "a numeric IP address"},
    {"an address in brackets", GOOD REGION_MAIN "listen_address = \"[::1]\"\n", "a numeric IP address"},
    {"a socket", GOOD REGION_MAIN "listen_socket = \"/tmp/sijil-none.sock\"\n", NULL},
    {"a socket in no folder", GOOD REGION_MAIN "listen_socket = \"/nowhere/sijild.sock\"\n", "can't make a socket"},
    {"a socket that is a file", GOOD REGION_MAIN "listen_socket = \"/proc/self/status\"\n", "listen_socket"},
    {"a socket that is a device", GOOD REGION_MAIN "listen_socket = \"/dev/null\"\n", "listen_socket"},
    {"a relative socket", GOOD REGION_MAIN "listen_socket = \"sijild.sock\"\n", "listen_socket = sijild.sock: an absolute path"},
    {"a socket of too many letters", GOOD REGION_MAIN "listen_socket = \"/tmp/" LONG "\"\n", "107 bytes"},
    {"a relative socket of keyd", GOOD_BUT_KEYD REGION_MAIN "keyd_socket = \"keyd\"\n", "keyd_socket = keyd: an absolute path"},
    {"a long socket of keyd", GOOD_BUT_KEYD REGION_MAIN "keyd_socket = \"/run/" LONG "\"\n", "107 bytes"},
    {"a database that is a word", GOOD_BUT_DATABASE REGION_MAIN "database = \"sijil\"\n", "no connection string"},
    {"a database with a setting that libpq lacks", GOOD_BUT_DATABASE REGION_MAIN "database = \"dbnme=sijil\"\n",
     "no connection string"},
    {"a database at a port that is none", GOOD_BUT_DATABASE REGION_MAIN "database = \"host=a,b port=5432,70000\"\n",
     "port: a number"},
    {"a database at two ports", GOOD_BUT_DATABASE REGION_MAIN "database = \"host=a,b,c port=5432,,5433\"\n", NULL},
    {"a URL with a port that is none", CERTIFICATE REST REGION_MAIN "public_url = \"https://registry.example:70000\"\n",
     "https://host"},
    {"a URL with an address that is none", CERTIFICATE REST REGION_MAIN "public_url = \"https://999.1.1.1\"\n", "https://host"},
    {"a URL of IPv6", CERTIFICATE REST REGION_MAIN "public_url = \"https://[fd00::7]:8443\"\n", NULL},
    {"a URL with half a bracket", CERTIFICATE REST REGION_MAIN "public_url = \"https://[fd00::7\"\n", "https://host"},
    {"a URL with capitals", CERTIFICATE REST REGION_MAIN "public_url = \"https://Registry.example\"\n", "https://host"},
    {"a bucket at no URL", GOOD BUCKET("http://s3", "models", ""), "endpoint = http://s3"},
    {"a bucket with a name that is none", GOOD BUCKET("https://s3", "Models", ""), "bucket = Models"},
    {"a bucket with networks that are none", GOOD BUCKET("https://s3", "models", " endpoint_networks = \"10.0.0.0/99\"\n"),
     "10.0.0.0/99"},
    {"a bucket with a prefix that is none", GOOD BUCKET("https://s3", "models", " prefix = \"/models\"\n"), "prefix = /models"},
    {"a region without a provider", GOOD REGION_MAIN "region main {\n driver = memory\n}\n", "provider/region"},
    {"a service with a quote", GOOD REGION_MAIN "service = \"a\\\"b\"\n", "service"},
    {"an unknown level", GOOD REGION_MAIN "log_level = loud\n", "debug, info"},
    {"a certificate that is not there", URL REST REGION_MAIN "tls_certificate = \"/nowhere/x.pem\"\n", "can't read this file"},
    {"the owner's password", GOOD REGION_MAIN "database_owner = \"user=sijil_owner password=x\"\n",
     "a gateway must not be able to read it"},
    {"a file that is cut off", GOOD "region \"local/main\" {\n driver = fs\n location = \"/var/lib/sijil\"\n",
     "a closing } is missing"},
    {"two ports", GOOD REGION_MAIN "listen_port = 1\nlisten_port = 2\n", "'listen_port' is given twice"},
};

static struct result read_text(const char *text, struct settings *settings, struct error *err)
{
    char path[] = "/tmp/sijil-settings-XXXXXX";
    const int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_true(file_write_all(fd, text, strlen(text), err).ok);
    (void)close(fd);
    const struct result result = settings_read(path, settings, err);
    (void)unlink(path);
    return result;
}

static void files(void **state)
{
    static struct settings settings;
    const struct settings_row *row = *state;
    struct error err = {0};

    assert_int_equal(read_text(row->text, &settings, &err).ok, row->complaint == NULL);
    if (row->complaint != NULL && strstr(err.message, row->complaint) == NULL) fail_msg("%s", err.message);
}

static void values_arrive_where_they_belong(void **state)
{
    static struct settings settings;
    struct error err = {0};

    (void)state;
    assert_true(read_text(GOOD REGION_MAIN "queue_max = 7\nlog_level = error\n", &settings, &err).ok);
    assert_int_equal(settings.queue_max, 7);
    assert_int_equal(settings.listen_port, 8443);
    assert_int_equal(settings.region_count, 1);
    assert_string_equal(settings.log_level, "error");
    assert_string_equal(settings.regions[0].title, "local/main");
    assert_string_equal(settings.regions[0].location, "/var/lib/sijil");
}

/* The sample has the defaults, and names the required parameters. */
static void the_sample_is_true(void **state)
{
    struct buffer OWNED_BUFFER sample = BUFFER(65536);
    static struct settings from_sample, defaults;
    struct error err = {0};

    (void)state;
    assert_true(settings_sample(&sample, &err).ok);
    assert_true(buffer_add_text(&sample, GOOD REGION_MAIN, &err).ok);
    assert_true(read_text(buffer_text(&sample), &from_sample, &err).ok);
    assert_true(read_text(GOOD REGION_MAIN, &defaults, &err).ok);
    assert_memory_equal(&from_sample, &defaults, sizeof defaults);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(values_arrive_where_they_belong),
        cmocka_unit_test(the_sample_is_true),
    };

    return RUN_TABLE(settings_rows, files) + cmocka_run_group_tests_name("others", others, NULL, NULL);
}
