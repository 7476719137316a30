//! AWS CloudFormation: the handle of a wait condition by its presigned URL, or a resource of a stack by the instance's identity, which the
//! instance metadata service (version 2) tells and CloudFormation takes in place of credentials (`CFN_V1`, as cfn-signal sends it).

use crate::cloud::{ANSWER_MAX, BODY_MAX, Cloud, Request, Service, When, cfn, is_passing, json, whole};
use crate::error::{CloudError, Error};
use crate::escape;
use crate::http::client::Outcome;
use crate::http::url::URL_MAX;
use crate::settings::{CloudKey, State, States};
use crate::sink::Sink;
use crate::sys::time::Deadline;
use crate::text::Text;
use alloc::vec;

/// The handle of a wait condition.
pub(super) const WAIT_CONDITION: Service = Service {
    name: "aws",
    when: When::Set(CloudKey::AwsUrl),
    states: States::of(&[State::Failed, State::Succeeded]),
    what: "PUT a signal to the presigned URL of a wait condition",
    budget_s: 0,
    needs_network: true,
    hint: "check rd.report.aws.url=, which is valid for a time only",
    prepare: None,
    report: wait_condition,
};

/// A resource of a stack.
pub(super) const RESOURCE: Service = Service {
    name: "aws",
    when: When::Set(CloudKey::AwsStack),
    states: States::of(&[State::Failed, State::Succeeded]),
    what: "signal rd.report.aws.resource= of rd.report.aws.stack=, by the instance's identity",
    budget_s: 0,
    needs_network: true,
    hint: "check rd.report.aws.stack= and rd.report.aws.resource=",
    prepare: None,
    report: resource,
};

/// The instance metadata service in either family.
const BASES: [&str; 2] = ["http://169.254.169.254", "http://[fd00:ec2::254]"];
/// Bytes of a session's token; they have 56.
const TOKEN_MAX: usize = 256;
/// Bytes of the signed document that tells who the instance is, and of its signature; they have some 500 and 180.
const DOCUMENT_MAX: usize = 2048;
/// Bytes of header fields: the document in base64, and the signature.
const FIELDS_MAX: usize = 2 * DOCUMENT_MAX + 1024;

fn wait_condition(cloud: &mut Cloud<'_>) -> Result<Outcome, Error> {
    let mut body = [0; BODY_MAX];
    let mut body = Text::new(&mut body);
    cfn::put(cloud, cfn::CFN, &mut body)?;
    let url = cloud.url(CloudKey::AwsUrl)?;
    // It was signed for a request without a type.
    cloud.send_until_taken("PUT", &url, "", whole(&body)?.as_bytes(), false)
}

fn resource(cloud: &mut Cloud<'_>) -> Result<Outcome, Error> {
    let stack = cloud.settings.cloud(CloudKey::AwsStack).unwrap_or_default();
    let resource = cloud.settings.cloud(CloudKey::AwsResource).ok_or(CloudError::NoResource)?;
    let mut answer = vec![0; ANSWER_MAX];
    let mut url = [0; URL_MAX];
    let mut url = Text::new(&mut url);
    let mut fields = [0; FIELDS_MAX];
    let mut fields = Text::new(&mut fields);
    identity(cloud, &mut answer, |cloud, document, signature| {
        let mut region = [0; 64];
        let mut region = Text::new(&mut region);
        json::string(document, "region", &mut region)?;
        let region = whole(&region)?;
        // It becomes a part of a host's name.
        if region.is_empty() || !region.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            return Err(CloudError::NoField.into());
        }
        let mut instance = [0; 64];
        let mut instance = Text::new(&mut instance);
        json::string(document, "instanceId", &mut instance)?;
        let tail = if region.starts_with("cn-") { ".amazonaws.com.cn" } else { ".amazonaws.com" };
        url.str("https://cloudformation.").str(region).str(tail).str("/?Action=SignalResource");
        for (name, value) in [
            ("LogicalResourceId", resource),
            ("StackName", stack),
            ("UniqueId", whole(&instance)?),
            ("Status", cfn::status(cloud.report.state)),
        ] {
            url.str("&").str(name).str("=");
            escape::percent(value, &mut |c| {
                url.str(c.encode_utf8(&mut [0; 4]));
                true
            });
        }
        url.str("&ContentType=JSON&Version=2010-05-15");
        fields.str("Authorization: CFN_V1 ");
        escape::base64(document, &mut fields)?;
        fields.str(":");
        signature.split(u8::is_ascii_whitespace).try_for_each(|line| fields.put(line))?;
        fields.str("\r\n");
        Ok(())
    })?;
    cloud.send_until_taken("GET", whole(&url)?, whole(&fields)?, b"", false)
}

/// Asks who this instance is: a document, and its signature in base64.
fn identity(
    cloud: &mut Cloud<'_>,
    answer: &mut [u8],
    mut then: impl FnMut(&Cloud<'_>, &[u8], &[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let (token, rest) = answer.split_at_mut_checked(TOKEN_MAX).unwrap_or_default();
    let (document, rest) = rest.split_at_mut_checked(DOCUMENT_MAX).unwrap_or_default();
    let (signature, _) = rest.split_at_mut_checked(DOCUMENT_MAX).unwrap_or_default();
    let mut base = "";
    let outcome = cloud.again(is_passing, super::TRY_OTHER_MS, &mut |cloud, number, until| {
        base = BASES.get(number % BASES.len()).copied().unwrap_or_default();
        let fields = "X-aws-ec2-metadata-token-ttl-seconds: 300\r\n";
        ask(cloud, "PUT", base, "/latest/api/token", fields, token, until)
    })?;
    let token = token.get(..outcome.kept).filter(|token| token.iter().all(u8::is_ascii_graphic));
    let token = token.and_then(|token| core::str::from_utf8(token).ok()).filter(|token| !token.is_empty());
    let mut fields = [0; TOKEN_MAX + 64];
    let mut fields = Text::new(&mut fields);
    fields.str("X-aws-ec2-metadata-token: ").str(token.ok_or(CloudError::NoField)?).str("\r\n");
    let fields = whole(&fields)?;
    let mut get = |name: &str, buf: &mut [u8]| {
        let mut path = [0; 64];
        let mut path = Text::new(&mut path);
        path.str("/latest/dynamic/instance-identity/").str(name);
        cloud.again(is_passing, super::TRY_MS, &mut |cloud, _, until| {
            ask(cloud, "GET", base, path.as_str(), fields, buf, until)
        })
    };
    let document_len = get("document", document)?.kept;
    let signature_len = get("signature", signature)?.kept;
    let document = document.get(..document_len).unwrap_or_default();
    let signature = signature.get(..signature_len).unwrap_or_default();
    let is_base64 = |b: &u8| b.is_ascii_alphanumeric() || b.is_ascii_whitespace() || b"+/=".contains(b);
    if signature.is_empty() || !signature.iter().all(is_base64) {
        return Err(CloudError::NoField.into());
    }
    then(cloud, document, signature)
}

fn ask(
    cloud: &mut Cloud<'_>,
    method: &str,
    base: &str,
    path: &str,
    fields: &str,
    answer: &mut [u8],
    until: Deadline,
) -> Result<Outcome, Error> {
    let mut url = [0; 128];
    let mut url = Text::new(&mut url);
    url.str(base).str(path);
    cloud.ask(&Request { method, url: url.as_str(), fields, body: b"", is_local: true, until }, answer)
}
