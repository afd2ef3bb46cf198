//! Decisions on a request by its head alone: its class, its route, and what the route does
//! with it. The proxy and `sprat explain` ask the same code.

use sprat_config::classify::{Asked, Classified, Classifier, Later};
use sprat_config::fields::Fields;
use sprat_net::error::Reason;

use crate::setup::routing::{Action, Forward, Page, Redirect, Route, Routes, Sought};

/// The rules that a configuration has for requests.
pub struct Rules<'a> {
    /// The routes, which say what is done with requests.
    pub routes: &'a Routes,
    /// The classifier, which gives requests their classes.
    pub classifier: &'a Classifier,
}

/// The class and the route of a request.
pub struct Decision<'a> {
    /// The request's class, and why.
    pub classified: Classified,
    /// The rules that may change the class when the response comes.
    pub later: Option<Later>,
    /// The route that takes the request; none if no route does.
    pub route: Option<&'a Route>,
}

/// The treatment that a route gives the requests of clients that it is not closed to.
pub enum Way<'a> {
    /// The request goes to a cluster.
    Forward(&'a Forward),
    /// The client is sent elsewhere.
    Redirect(&'a Redirect),
    /// Sprat answers by itself.
    Respond(http::StatusCode, Option<&'a Page>),
}

impl<'a> Rules<'a> {
    /// Decides which class and which route a request has. An endpoint may take encoded slashes
    /// in its path for slashes: the path in that reading is `other_reading`, if it differs.
    ///
    /// # Errors
    ///
    /// Fails if other rules apply to the path's other reading.
    pub fn decide<F: Fields + ?Sized>(
        &self,
        sought: &Sought<'_, F>,
        other_reading: Option<&str>,
    ) -> Result<Decision<'a>, Reason> {
        let classified = self.classifier.classify(sought.asked);
        let route = self.routes.find(sought);
        if let Some(other) = other_reading {
            let same = self.has_same(sought, route, classified, other);
            same.then_some(()).ok_or(Reason::EscapedSlash)?;
        }
        Ok(Decision {
            classified,
            later: self.classifier.later(sought.asked, classified),
            route,
        })
    }

    /// Returns whether a request has the same class and route by its path's other reading,
    /// which an endpoint may take. A route that names an escaped slash stands for both.
    fn has_same<F: Fields + ?Sized>(
        &self,
        sought: &Sought<'_, F>,
        route: Option<&Route>,
        classified: Classified,
        other: &str,
    ) -> bool {
        let asked = Asked {
            path: other,
            ..*sought.asked
        };
        let other = Sought {
            asked: &asked,
            ..*sought
        };
        let other_route = self.routes.find(&other);
        // Who writes a route for `/a%2Fb` says how it is to be read.
        let is_for_this = route.is_some_and(Route::names_escaped_slash);
        (is_for_this || route.map(|own| own.index) == other_route.map(|own| own.index))
            && classified.class == self.classifier.classify(&asked).class
    }
}

/// Returns the class of a request whose user is known by now, and the rules that may change it
/// when the response comes. Returns none where no rule goes by users, so that the class stays.
pub fn class_by_user<F: Fields + ?Sized>(
    classifier: &Classifier,
    asked: &Asked<'_, F>,
    user: &str,
) -> Option<(Classified, Option<Later>)> {
    classifier.wants_user().then(|| {
        let user = Some(user);
        let asked = Asked { user, ..*asked };
        let classified = classifier.classify(&asked);
        (classified, classifier.later(&asked, classified))
    })
}

impl Way<'_> {
    /// Returns what a route does with a request.
    pub fn of(route: &Route) -> Way<'_> {
        match &route.action {
            Action::Forward(forward) => Way::Forward(forward),
            Action::Redirect(redirect) => Way::Redirect(redirect),
            Action::Respond { status, page } => Way::Respond(*status, page.as_ref()),
        }
    }
}
